// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/diff_page.h"

#include <errno.h>
#include <stdlib.h>

#include "client/diff/merged.h"
#include "client/session/output.h"
#include "client/session/profile_file.h"

static int render(const struct side_input *inputs, size_t n_base, size_t n_now, const struct diff_selection *selection,
		  const struct comparison *comparison, const char *path, struct so_error *err)
{
	struct render_options options = { .functions = true,
					  .python_only = selection->request.render.python_only,
					  .gil = selection->request.render.gil,
					  .only = selection->request.render.only };
	_cleanup_(merged) struct merged *merged = NULL;
	_cleanup_(output) struct output *output = NULL;
	int ret = merged__new(inputs, n_base, n_now, &selection->request, comparison, &merged);

	if (ret)
		return so_err(err, ret, "out of memory");
	ret = output__open(path, &output, err);
	if (ret)
		return ret;
	options.diff = &merged->diff;
	ret = render__html(&merged->profile, &options, output__file(output), err);
	return ret && ret != -EIO ? ret : output__commit(output, err);
}

int diff_page__write(const char *const *base, size_t n_base, const char *const *now, size_t n_now,
		     const struct diff_selection *selection, const struct comparison *comparison, const char *path,
		     struct so_error *err)
{
	size_t n = n_base + n_now;
	_cleanup_free_ struct profile_file *files = calloc(n, sizeof(*files));
	_cleanup_free_ struct side_input *inputs = calloc(n, sizeof(*inputs));
	int ret = files && inputs ? 0 : so_err(err, -ENOMEM, "out of memory");

	for (size_t i = 0; !ret && i < n; i++) {
		const char *name = i < n_base ? base[i] : now[i - n_base];

		ret = profile_file__read(name, NULL, &files[i], err);
		inputs[i] = (struct side_input){ .profile = files[i].profile, .name = name };
	}
	ret = ret ?: render(inputs, n_base, n_now, selection, comparison, path, err);
	for (size_t i = 0; files && i < n; i++)
		profile_file__release(&files[i]);
	return ret;
}
