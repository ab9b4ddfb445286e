// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_tables.h"

#include "client/summary/summary_own.h"

static int count_functions(struct summary_tables *out)
{
	bool python_only = out->scope.options->python_only;
	int ret = names__functions(&out->scope, false, &out->all_names);

	if (!ret && python_only)
		ret = names__functions(&out->scope, true, &out->some_names);
	if (!ret)
		ret = rows__of_names(&out->scope, python_only ? &out->some_names : &out->all_names, &out->functions);
	return ret;
}

int summary_tables__init(const struct profile *profile, const struct summary_request *request,
			 struct summary_tables *out)
{
	int ret;

	scope__init(profile, &request->render, &request->style, &out->scope);
	ret = count_functions(out);
	ret = ret ?: names__lines(&out->scope, &out->line_names);
	ret = ret ?: rows__of_names(&out->scope, &out->line_names, &out->lines);
	ret = ret ?: rows__of_own_lines(&out->scope, &out->own);
	ret = ret ?: rows__of_threads(&out->scope, true, &out->threads);
	ret = ret ?: rows__of_threads(&out->scope, false, &out->processes);
	if (!ret)
		ret = summary_categories__new(&out->scope, request->rules, &out->all_names, &out->line_names,
					      &out->categories);
	ret = ret ?: summary_wall__new(&out->scope, &out->wall);
	return ret;
}

void summary_tables__clear(struct summary_tables *tables)
{
	rows__clear(&tables->functions);
	rows__clear(&tables->lines);
	rows__clear(&tables->own);
	rows__clear(&tables->threads);
	rows__clear(&tables->processes);
	summary_categories__free(tables->categories);
	summary_wall__free(tables->wall);
	names__clear(&tables->all_names);
	names__clear(&tables->some_names);
	names__clear(&tables->line_names);
}
