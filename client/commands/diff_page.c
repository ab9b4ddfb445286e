// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/diff_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/merged.h"
#include "client/session/output.h"

int diff_page__write(const struct diff_files *base, const struct diff_files *now,
		     const struct diff_selection *selection, const struct comparison *comparison, const char *path,
		     struct so_error *err)
{
	struct render_options options = { .functions = true,
					  .python_only = selection->request.render.python_only,
					  .gil = selection->request.render.gil,
					  .only = selection->request.render.only };
	_cleanup_free_ struct side_input *inputs = calloc(base->n + now->n, sizeof(*inputs));
	_cleanup_(merged) struct merged *merged = NULL;
	_cleanup_(output) struct output *output = NULL;
	int ret = inputs ? 0 : -ENOMEM;

	if (inputs) {
		memcpy(inputs, base->inputs, base->n * sizeof(*inputs));
		memcpy(inputs + base->n, now->inputs, now->n * sizeof(*inputs));
		ret = merged__new(inputs, base->n, now->n, &selection->request, comparison, &merged);
	}
	if (ret)
		return so_err(err, ret, "out of memory");
	ret = output__open(path, &output, err);
	if (ret)
		return ret;
	options.diff = &merged->diff;
	ret = render__html(&merged->profile, &options, output__file(output), err);
	return ret && ret != -EIO ? ret : output__commit(output, err);
}
