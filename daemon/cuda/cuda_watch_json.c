// SPDX-License-Identifier: GPL-2.0-or-later
/* What a watch says of itself. */
#include <string.h>

#include "stakeout/cuda_names.h"
#include "daemon/cuda/cuda_watch.h"
#include "daemon/os/clock.h"
#include "stakeout/cuda_document.h"

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

static json_t *periods(const struct cuda_watch *w)
{
	const struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);
	json_t *all = json_object();

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		/* A kind's calls are mostly those of the runtime. */
		uint32_t times = control->counted[SO_CUDA_UNIT(SO_CUDA_OF_RUNTIME, i)] ? SO_CUDA_TIMED_ONE_IN : 1;

		json_object_set_new(all, cuda_names__kind_word(i), json_integer(w->stacks.period[i] * times));
	}
	return all;
}

static json_t *stack_times(const struct cuda_watch *w)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		json_object_set_new(all, cuda_names__kind_word(i), json_integer((json_int_t)w->stacks.time_ns));
	return all;
}

/* {"launch": "counted", "driver launch": "windowed"}: the units that are not at the top. */
static json_t *rungs(const struct cuda_watch *w)
{
	json_t *all = json_object();
	char name[64];

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		if (w->ladder.rung[i] == CUDA_RUNG_FULL || i % SO_CUDA_KIND_ROOM >= SO_CUDA_KIND_COUNT)
			continue;
		snprintf(name, sizeof(name), "%s%s", i >= SO_CUDA_KIND_ROOM ? "driver " : "",
			 cuda_names__kind_word(i % SO_CUDA_KIND_ROOM));
		json_object_set_new(all, name, json_string(cuda_ladder__word(w->ladder.rung[i])));
	}
	return all;
}

/* The lowest rung of a unit that has calls; nested ones do not matter. */
static enum cuda_rung lowest_rung(const struct cuda_watch *w)
{
	enum cuda_rung lowest = CUDA_RUNG_FULL;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		if (w->hits_per_s[i] > w->nested_per_s[i] && w->ladder.rung[i] > lowest)
			lowest = w->ladder.rung[i];
	}
	return lowest;
}

bool cuda_watch__times_all(const struct cuda_watch *w)
{
	return lowest_rung(w) == CUDA_RUNG_FULL;
}

static const char *state_of(const struct cuda_watch *w)
{
	enum cuda_rung lowest = lowest_rung(w);

	return lowest == CUDA_RUNG_FULL && w->stacks.fewer ? "fewer-stacks" : cuda_ladder__word(lowest);
}

double cuda_watch__overhead(const struct cuda_watch *w)
{
	return w->time_ns > 0 ? 100 * w->cost_ns / w->time_ns : 0;
}

json_t *cuda_watch__probes(const struct cuda_watch *w)
{
	const struct cuda_prices prices = cuda_probes__prices(w->probes);
	struct so_cuda_slot slot = w->checked_slot;
	struct so_cuda_probes_row row;
	size_t installed = 0;

	for (size_t i = 0; i < w->n_mapped; i++)
		installed += !w->mapped[i].gone && !w->mapped[i].problem[0] ? w->mapped[i].library.n_functions : 0;
	cuda_probes__slot(w->probes, w->slot, &slot);
	row = (struct so_cuda_probes_row){
		.installed = installed,
		.kind = cuda_probes__kind_word(cuda_probes__kind(w->probes)),
		.floor_ns = prices.floor_ns,
		.hits = slot.hits,
		.returns = slot.returns,
		.nested = slot.nested,
		.stacks = slot.stacks,
		.cost_ns_per_call = w->counted_calls > 0 ? w->cost_ns / w->counted_calls : prices.timed_ns,
		.overhead_percent = cuda_watch__overhead(w),
		.budget_percent = w->budget_percent,
		.state = state_of(w),
		.rungs_json = rungs(w),
		.stack_period_json = periods(w),
		.stack_time_ns_json = stack_times(w),
	};
	return so_cuda_row__write(SO_CUDA_ROW_PROBES, &row, false);
}

static json_t *probe(const struct cuda_function *f)
{
	struct so_cuda_probe_row row = { .symbol = f->symbol,
					 .api = cuda_names__base(f->name),
					 .address = f->vaddr + f->site.offset,
					 .offset = f->site.offset,
					 .instruction = f->site.instruction,
					 .emulated = f->site.emulated,
					 .why = f->site.why };

	return so_cuda_row__write(SO_CUDA_ROW_PROBE, &row, false);
}

static json_t *library(const struct cuda_mapped *m)
{
	_cleanup_(json) json_t *path = json_string(m->path);
	struct so_cuda_library_row row = { .id = m->number,
					   .pid = m->pid,
					   .path = json_string_value(path) ?: "?",
					   .kind = m->library.kind == CUDA_LIBRARY_DRIVER ? "driver" : "runtime",
					   .is_static = m->library.kind == CUDA_LIBRARY_RUNTIME_STATIC,
					   .probes_json = json_array() };

	for (size_t i = 0; i < m->library.n_functions; i++)
		json_array_append_new(row.probes_json, probe(&m->library.functions[i]));
	return so_cuda_row__write(SO_CUDA_ROW_LIBRARY, &row, false);
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

int cuda_watch__moment(const struct cuda_watch *w, struct cuda_moment *out)
{
	struct cuda_moment moment = {
		.begin_ns = w->begin_ns,
		.at_ns = clock__now_ns(),
		.cpu_ns = w->cpu_ns,
		.lines_lost = w->lines.lost,
		.lines_forgotten = w->lines.forgotten,
		.folded = w->n_folded,
		.cost_ns = w->cost_ns,
		.time_ns = w->time_ns,
		.estimates = w->estimates,
	};
	int ret = cuda_probes__slot(w->probes, w->slot, &moment.slot);

	if (!ret)
		*out = moment;
	return ret;
}

void cuda_moment__subtract(struct cuda_moment *f, const struct cuda_moment *base)
{
	f->begin_ns = base->at_ns;
	f->cpu_ns -= base->cpu_ns;
	f->lines_lost -= base->lines_lost;
	f->lines_forgotten -= base->lines_forgotten;
	f->folded -= base->folded;
	f->cost_ns -= base->cost_ns;
	f->time_ns -= base->time_ns;
	cuda_estimates__add(&f->estimates, &base->estimates, -1);
	cuda_slot__subtract(&f->slot, &base->slot);
}
