// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout dump: every thread's stack, now. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/render/dump_text.h"
#include "client/session/interrupt.h"
#include "client/render/lines_missing.h"
#include "client/session/message.h"
#include "stakeout/options.h"
#include "client/session/output.h"
#include "client/render/selection.h"
#include "client/session/session.h"
#include "client/session/target.h"

/* Running threads are seen by sampling: this often, for so long. */
#define RATE_HZ   999
#define SAMPLE_MS 120

struct dumping {
	pid_t pid;
	bool as_json;
	struct dump_part part;
	struct output *output;
	struct session *session;
	struct target target;
	bool attached; /* by this command, so that it detaches */
	bool child;    /* of a target */
	uint8_t *bytes;
	size_t length;
	struct profile *profile;
	char command[4096];
};

/* A private daemon ends anyhow. */
static void detach(struct dumping *d)
{
	if (d->attached && !session__private(d->session))
		target__detach(session__api(d->session), d->target.id, NULL);
	d->attached = false;
}

static void cleanup__dumping(struct dumping *d)
{
	detach(d);
	profile__free(d->profile);
	free(d->bytes);
	session__free(d->session);
	output__free(d->output);
}

/* The command line, its arguments parted by blanks, cut at the end if long; the name of a process that has none. */
static void read_command(struct dumping *d)
{
	static const char more[] = "…";
	const size_t room = sizeof(d->command) - sizeof(more);
	_cleanup_close_ int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", d->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, d->command, room);
	for (ssize_t i = 0; i < n; i++) {
		if (!d->command[i])
			d->command[i] = ' ';
	}
	if (n == (ssize_t)room) {
		strcpy(d->command + n, more);
		return;
	}
	while (n > 0 && d->command[n - 1] == ' ')
		n--;
	if (n > 0)
		d->command[n] = '\0';
	else
		snprintf(d->command, sizeof(d->command), "%s", d->target.comm);
}

/* A process that the daemon watches already, in whatever way, is looked at through that target. */
static int attach(struct dumping *d, struct so_error *err)
{
	const struct attach_request request = { .pid = d->pid, .rate_hz = RATE_HZ, .kernel = true };
	struct api_client *api = session__api(d->session);
	int ret = target__attach(api, &request, &d->target, err);

	d->attached = !ret;
	d->child = ret == -EEXIST && (target__find(api, d->pid, &d->target, NULL) || target__ended(&d->target));
	return ret == -EEXIST ? 0 : ret;
}

/* The daemon's words for a process that cannot be attached stay in err where it turns out to be no child either. */
static int read_threads(struct dumping *d, struct so_error *err)
{
	struct api_client *api = session__api(d->session);

	if (d->child)
		return target__threads_of_child(api, d->pid, &d->target, &d->bytes, &d->length, NULL) ? -EEXIST : 0;
	err->text[0] = '\0';
	return target__threads(api, d->target.id, d->pid, &d->bytes, &d->length, err);
}

static int look(struct dumping *d, struct so_error *err)
{
	int ret = attach(d, err);

	if (!ret && !interrupt__pending())
		interrupt__sleep_ms(SAMPLE_MS);
	if (!ret && interrupt__pending())
		ret = so_err(err, -EINTR, "interrupted before the threads were looked at");
	ret = ret ?: read_threads(d, err);
	if (!ret)
		err->text[0] = '\0';
	return ret;
}

static int fetch(const struct globals *globals, struct dumping *d, struct so_error *err)
{
	int ret = session__open(globals->socket, SESSION_ANY, &d->session, err);

	if (!ret && interrupt__pending())
		ret = so_err(err, -EINTR, "interrupted before the threads were looked at");
	if (ret)
		return ret;
	ret = look(d, err);
	/* The recording whose target it was may just have ended. */
	if (ret && ret != -EINTR && d->target.id && !d->attached)
		ret = look(d, err);
	/* Not later: who reads the output may take his time. */
	detach(d);
	ret = ret ?: profile__read(d->bytes, d->length, &d->profile, err);
	if (!ret && !d->profile->n_samples)
		ret = so_err(err, -ESRCH, "process %d has ended", d->pid);
	return ret;
}

/* As for a recording: nobody holding the lock is an answer, nobody knowing of one is none. */
static int check_gil(const struct dumping *d, struct so_error *err)
{
	const char *problem = profile__comment(d->profile, "python.problem");

	if (!d->part.gil || (!problem && profile__comment(d->profile, "python.version")))
		return 0;
	for (size_t i = 0; i < d->profile->n_samples; i++) {
		if (d->profile->samples[i].gil != PROFILE_GIL_NONE)
			return 0;
	}
	return so_err(err, -ENODATA, "--gil shows nothing here: no thread of process %d is a Python thread%s%s%s",
		      d->pid, problem ? " (" : "", problem ? problem : "", problem ? ")" : "");
}

/* Where writing failed, the commit knows the system's reason. */
static int print(struct dumping *d, struct so_error *err)
{
	const struct dump dump = { .pid = d->pid, .command = d->command, .profile = d->profile };
	FILE *out = output__file(d->output);
	int ret = check_gil(d, err);

	if (ret)
		return ret;
	ret = d->as_json ? dump_text__json(&dump, &d->part, out, err) : dump_text__print(&dump, &d->part, out, err);
	return ret && ret != -EIO ? ret : output__commit(d->output, err);
}

/* What the output itself does not say. */
static void say_notes(const struct dumping *d)
{
	const char *problem = profile__comment(d->profile, "python.problem"),
		   *missing = profile__comment(d->profile, LINES_MISSING_COMMENT);
	uint64_t n = missing ? strtoull(missing, NULL, 10) : 0;
	char note[LINES_MISSING_TEXT_BYTES];

	if (n)
		message__note("%s", lines_missing__text(n, note));
	if (d->as_json && problem)
		message__note("Python: %s", problem);
	if (dump_text__note(d->profile, &d->part, note, sizeof(note)))
		message__note("%s", note);
}

static int parse(int argc, char **argv, struct dumping *d, struct so_error *err)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &d->pid, "the process to look at" },
		{ OPTION_ON, 'g', "gil", NULL, &d->part.gil, "only threads that hold Python's GIL" },
		SELECTION_PYTHON_ONLY(d->part),
		{ OPTION_OFF, 0, "no-kernel", NULL, &d->part.kernel, "leave kernel frames out" },
		{ OPTION_ON, 'j', "json", NULL, &d->as_json, "write JSON" },
		{ OPTION_NOTHING, 'n', "native", NULL, NULL, "as always; for habits from py-spy" },
		{ OPTION_NOTHING, 0, "nonblocking", NULL, NULL, "as always; for habits from py-spy" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "dump -p PID [OPTION]...",
		.about = "Shows every thread of a process: what it does and its stack, innermost frame first,\n"
			 "Python, native and kernel frames in one. The process is not stopped: a thread\n"
			 "that runs all the time shows the stack it had most often in a tenth of a second.",
		.entries = entries,
	};
	int ret = options__parse(&table, argc, argv, err);

	if (ret == OPTIONS_GO_ON && !d->pid)
		return so_err(err, -EINVAL, "which process? Give its ID with -p PID");
	return ret;
}

static int dump(const struct globals *globals, struct dumping *d, struct so_error *err)
{
	int ret = output__open("-", &d->output, err);

	ret = ret ?: fetch(globals, d, err);
	if (ret)
		return ret;
	read_command(d);
	ret = print(d, err);
	if (!ret)
		say_notes(d);
	return ret;
}

int cmd_dump(const struct globals *globals, int argc, char **argv)
{
	_cleanup_(dumping) struct dumping d = { .part = { .kernel = true } };
	struct so_error err = { .text = "" };
	int ret = parse(argc, argv, &d, &err);

	if (ret)
		return running__parsed(ret, &err);
	interrupt__install();
	ret = dump(globals, &d, &err);
	return running__end(ret, &err);
}
