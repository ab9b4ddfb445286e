// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/fetch.h"

#include <errno.h>
#include <stdlib.h>

#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/output.h"
#include "profile/profile.h"
#include "client/commands/running.h"
#include "client/render/selection.h"
#include "client/session/target.h"

static int get_profile(struct api_client *api, const struct fetch_options *options, uint8_t **bytes, size_t *length,
		       struct so_error *err)
{
	struct target target;
	int ret;

	if (past__wanted(&options->past))
		return past__profile(api, options->pid, &options->range, bytes, length, err);
	ret = target__find(api, options->pid, &target, err);
	return ret ? ret : target__last(api, target.id, options->last_s, bytes, length, err);
}

/* The daemon keeps the latest part of what it watches for long. */
static void note_older(const struct profile *profile)
{
	const char *forgotten = profile__comment(profile, "forgotten");

	if (!forgotten)
		return;
	message__note("this is the latest %.0f s: %lld samples before that are in memory no more (--since 1h and the "
		      "like read the history)",
		      (double)profile->duration_ns / 1e9, strtoll(forgotten, NULL, 10));
}

static int fetch(struct api_client *api, void *context, struct so_error *err)
{
	const struct fetch_options *options = context;
	_cleanup_(output) struct output *output = NULL;
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct format_source source = { 0 };
	char note[160];
	int ret = output__open(options->output, &output, err);

	ret = ret ?: get_profile(api, options, &bytes, &source.length, err);
	ret = ret ?: profile__read(bytes, source.length, &profile, err);
	if (!ret && past__wanted(&options->past))
		past__tell_profile(profile);
	ret = ret ?: selection__check(profile, &options->render, err);
	if (ret)
		return ret;
	source.bytes = bytes;
	source.profile = profile;
	ret = format__write(options->format, &source, &options->render, output__file(output), err);
	if (!ret || ret == -EIO)
		ret = output__commit(output, err);
	if (!ret && selection__note(profile, &options->render, note, sizeof(note)))
		message__note("%s", note);
	if (!ret)
		note_older(profile);
	return ret;
}

int fetch__run(const struct globals *globals, struct fetch_options *options)
{
	struct so_error err = { .text = "" };

	if (only__check(&options->render.only, &err) ||
	    (past__wanted(&options->past) && past__range(&options->past, &options->range, &err))) {
		message__error("%s", err.text);
		return STATUS_USAGE;
	}
	interrupt__install();
	return running__do(globals, fetch, options);
}
