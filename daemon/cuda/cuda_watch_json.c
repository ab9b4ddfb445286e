// SPDX-License-Identifier: GPL-2.0-or-later
/* What a watch says of itself. */
#include "daemon/cuda/cuda_watch_parts.h"

/* Processes of a target have the same libraries, and so the same problems. */
static void add_once(json_t *all, json_t *seen, const char *problem)
{
	if (!json_object_get(seen, problem)) {
		json_object_set_new_nocheck(seen, problem, json_true());
		json_array_append_new(all, json_string_nocheck(problem));
	}
}

json_t *cuda_watch__problems(const struct cuda_watch *w)
{
	json_t *all = json_array(), *seen = json_object();

	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].problem[0])
			add_once(all, seen, w->mapped[i].problem);
	}
	json_decref(seen);
	if (w->lost)
		json_array_append_new(all, json_string("out of memory: counts of some time were lost"));
	return all;
}

static json_t *periods(const struct cuda_budget_plan *plan)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		json_object_set_new(all, cuda_names__kind_word(i), json_integer(plan->stack_period[i]));
	return all;
}

static json_t *stack_times(const struct cuda_budget_plan *plan)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		json_object_set_new(all, cuda_names__kind_word(i),
				    json_integer((json_int_t)plan->stack_time_ns[i]));
	return all;
}

json_t *cuda_watch__probes(const struct cuda_watch *w)
{
	struct cuda_probe_cost cost = cuda_watch_cost(w);
	struct so_cuda_slot slot = w->slot_seen;
	struct cuda_budget_plan plan;
	size_t installed = 0;
	double of_call = cuda_watch_cost_of_call(w);

	for (size_t i = 0; i < w->n_mapped; i++)
		installed += w->mapped[i].steady || (!w->mapped[i].gone && !w->mapped[i].problem[0])
				     ? w->mapped[i].library.n_functions
				     : 0;
	cuda_probes__slot(w->probes, w->slot, &slot);
	cuda_budget__plan(w->budget, &plan);
	return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:s, s:f, s:o, s:o}", "installed",
			 (json_int_t)installed, "kind", cuda_probes__kind_word(cuda_probes__kind(w->probes)),
			 "floor_ns", (json_int_t)cost.floor_ns, "hits", (json_int_t)slot.hits, "returns",
			 (json_int_t)slot.returns, "nested", (json_int_t)slot.nested, "stacks",
			 (json_int_t)slot.stacks, "cost_ns_per_call", of_call > 0 ? of_call : cost.pair_ns,
			 "overhead_percent", plan.overhead_percent, "budget_percent", w->budget_percent,
			 "state", cuda_budget__word(plan.state), "duty", plan.duty, "stack_period",
			 periods(&plan), "stack_time_ns", stack_times(&plan));
}

static json_t *probe(const struct cuda_function *f)
{
	char address[32];

	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)(f->vaddr + f->site.offset));
	return json_pack("{s:s, s:s, s:s, s:I, s:s, s:b, s:s}", "symbol", f->symbol, "api",
			 cuda_names__base(f->name), "address", address, "offset_in_function",
			 (json_int_t)f->site.offset, "instruction", f->site.instruction, "emulated",
			 f->site.emulated, "why", f->site.why);
}

static json_t *library(const struct cuda_mapped *m)
{
	json_t *probes = json_array();
	const char *kind = m->library.kind == CUDA_LIBRARY_DRIVER ? "driver" : "runtime";

	for (size_t i = 0; i < m->library.n_functions; i++)
		json_array_append_new(probes, probe(&m->library.functions[i]));
	return json_pack("{s:I, s:I, s:o, s:s, s:b, s:o}", "id", (json_int_t)m->number, "pid",
			 (json_int_t)m->pid, "path", json_string(m->path) ?: json_string("?"), "kind", kind,
			 "static", m->library.kind == CUDA_LIBRARY_RUNTIME_STATIC, "probes", probes);
}

json_t *cuda_watch__libraries(const struct cuda_watch *w)
{
	json_t *all = json_array();

	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].library.n_functions)
			json_array_append_new(all, library(&w->mapped[i]));
	}
	return all;
}
