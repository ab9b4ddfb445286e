// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/cuda_taken.h"
#include "daemon/targets/cuda_targets_internal.h"
#include "daemon/targets/steps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"

/* Lines idle for so long can go, or so long when room is short: longer than a history's window, which has had them. */
#define QUIET_NS        600000000000ull
#define QUIET_FULL_NS   330000000000ull
#define FORGET_AGAIN_NS 10000000000ull

static int copy_lines(const struct cuda_watch *w, struct cuda_taken *to)
{
	to->lines = calloc(w->lines.n + 1, sizeof(*to->lines));
	if (!to->lines)
		return -ENOMEM;
	if (w->lines.n)
		memcpy(to->lines, w->lines.list, w->lines.n * sizeof(*to->lines));
	to->n_lines = w->lines.n;
	return 0;
}

static int subtract(struct cuda_taken *taken, const struct cuda_taken *base)
{
	struct cuda_snapshot *since;
	int ret = cuda_snapshot__subtract(taken->calls, base->calls, &since);

	if (ret)
		return ret;
	cuda_snapshot__free(taken->calls);
	taken->calls = since;
	for (size_t i = 0; i < base->n_lines; i++) {
		if (taken->lines[i].serial != base->lines[i].serial)
			continue;
		taken->lines[i].calls -= base->lines[i].calls;
		taken->lines[i].total_ns -= base->lines[i].total_ns;
		taken->lines[i].bytes -= base->lines[i].bytes;
		taken->lines[i].needless -= base->lines[i].needless;
		taken->lines[i].needless_ns -= base->lines[i].needless_ns;
		taken->lines[i].seen.calls -= base->lines[i].seen.calls;
		taken->lines[i].seen.total_ns -= base->lines[i].seen.total_ns;
		taken->lines[i].seen.bytes -= base->lines[i].seen.bytes;
	}
	cuda_moment__subtract(&taken->moment, &base->moment);
	return 0;
}

static int copy_stack(const struct accumulator *from, uint64_t hash, struct accumulator *to)
{
	uint32_t at;

	return u64_table__get(&from->stack_by_hash, hash, &at) ? accumulator__add_stack(to, from->stacks[at]) : 0;
}

int cuda_taken__copy_stacks(const struct accumulator *from, struct cuda_taken *to)
{
	const struct cuda_site_entry *sites;
	int ret = 0;
	size_t n;

	for (size_t i = 0; !ret && i < to->n_lines; i++) {
		if (to->lines[i].calls > 0)
			ret = copy_stack(from, to->lines[i].stack, &to->stacks);
	}
	sites = cuda_snapshot__sites(to->calls, &n);
	for (size_t i = 0; !ret && i < n; i++)
		ret = copy_stack(from, sites[i].key.stack, &to->stacks);
	return ret;
}

/* Half of either bound is enough for what goes on. */
void cuda_taken__forget_lines(struct target *t, uint64_t now)
{
	struct cuda_watch *w = t->cuda.watch;
	size_t count = cuda_lines__count(&w->lines), bytes = t->cuda.stacks.bytes;
	bool full = count > CUDA_LINES_MAX / 8 * 7 || bytes > TARGET_CUDA_STACK_BYTES / 8 * 7;
	_cleanup_(cuda_snapshot) struct cuda_snapshot *calls = NULL;
	uint64_t quiet_ns = full ? QUIET_FULL_NS : QUIET_NS;
	struct cuda_taken left;

	if (now < w->forget_ns || now < quiet_ns ||
	    (count <= CUDA_LINES_MAX / 2 && bytes <= TARGET_CUDA_STACK_BYTES / 2))
		return;
	w->forget_ns = now + FORGET_AGAIN_NS;
	/* Whose memory is still there is in the kernel's maps. */
	if (cuda_watch__result(w, &calls, NULL) || !cuda_lines__forget(&w->lines, count / 2, now - quiet_ns))
		return;
	left = (struct cuda_taken){ .lines = w->lines.list, .n_lines = w->lines.n, .calls = calls };
	left.stacks.max_bytes = t->cuda.stacks.max_bytes;
	if (cuda_taken__copy_stacks(&t->cuda.stacks, &left)) {
		accumulator__release(&left.stacks);
		return;
	}
	accumulator__release(&t->cuda.stacks);
	t->cuda.stacks = left.stacks;
}

int cuda_taken__report(struct cuda_taken *taken, bool unwatched)
{
	const struct cuda_moment *f = &taken->moment;
	int ret = cuda_snapshot__new(&taken->reported);

	taken->estimated = unwatched || cuda_estimates__are_any(&f->estimates);
	ret = ret ?: cuda_snapshot__merge(taken->reported, taken->calls, 0);
	ret = ret ?: cuda_snapshot__spread_untimed(taken->reported);
	if (!ret && f->time_ns > 0)
		ret = json_object_set_new(taken->probes, "overhead_percent", json_real(100 * f->cost_ns / f->time_ns));
	return ret ? -ENOMEM : 0;
}

static int take(struct cuda_targets *c, struct target *t, bool begins, struct cuda_taken **out)
{
	_cleanup_(cuda_taken) struct cuda_taken *taken = calloc(1, sizeof(*taken));
	struct cuda_watch *w = t->of ? t->of->cuda.watch : t->cuda.watch;
	struct cuda_estimates estimates;
	int ret = taken ? 0 : -ENOMEM;

	ret = ret ?: begins ? cuda_watch__cut(w, &taken->calls) : cuda_watch__result(w, &taken->calls, &estimates);
	ret = ret ?: copy_lines(w, taken);
	ret = ret ?: cuda_watch__pids(w, &taken->pids, &taken->n_pids);
	ret = ret ?: cuda_watch__moment(w, &taken->moment);
	if (ret)
		return ret;
	if (!begins)
		taken->moment.estimates = estimates;
	/* The sums do not tell what of them is from before a recording began. */
	ret = t->cuda.base ? 0 : cuda_snapshot__merge(taken->calls, w->folded, 0);
	if (ret)
		return ret;
	taken->steps = steps__since(t->of ?: t, taken->moment.begin_ns, &taken->steps_ns);
	taken->probes = cuda_watch__probes(w);
	taken->libraries = cuda_watch__libraries(w);
	taken->problems = cuda_watch__problems(w);
	taken->in_progress = cuda_watch__in_progress(w);
	if (t->cuda.base)
		ret = subtract(taken, t->cuda.base);
	ret = ret ?: begins ? 0 : cuda_taken__report(taken, w->unwatched);
	ret = ret ?: cuda_taken__copy_stacks(&(t->of ?: t)->cuda.stacks, taken);
	cuda_probes__consume_names(c->probes);
	cuda_taken__remember_names(c, taken->calls, 0);
	if (!ret)
		*out = TAKE_PTR(taken);
	return ret;
}

int cuda_taken__begin(struct cuda_targets *c, struct target *view, struct cuda_taken **out)
{
	return take(c, view, true, out);
}

int cuda_taken__new(struct cuda_targets *c, struct target *t, struct cuda_taken **out)
{
	return take(c, t, false, out);
}

/* What is missing of the lines is missing of some, and not by chance; or calls were not counted. */
static bool are_lacking(const struct cuda_taken *taken)
{
	return taken->moment.lines_lost || taken->moment.lines_forgotten || taken->moment.folded ||
	       taken->moment.slot.lost[SO_CUDA_LOSS_STACK_FULL] || taken->moment.slot.lost[SO_CUDA_LOSS_CALLS_FULL];
}

/* Whole figures, as a history has them: there the same is made of the same. */
static double whole(double value)
{
	return value > 0 ? round(value) : 0;
}

static struct cuda_line_share share_of(const struct cuda_line *line)
{
	return (struct cuda_line_share){
		.group = line->api,
		.all = { whole(line->calls), whole(line->total_ns), whole(line->bytes) },
		.seen = { whole(line->seen.calls), whole(line->seen.total_ns), whole(line->seen.bytes) },
	};
}

static int share_out(const struct cuda_taken *taken, struct cuda_line_share *shares)
{
	struct cuda_line_figures counted[SO_CUDA_API_COUNT] = { 0 };
	const struct cuda_calls_entry *entries;
	size_t n;

	entries = cuda_snapshot__calls(taken->reported, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.api >= SO_CUDA_API_COUNT)
			continue;
		counted[entries[i].key.api].calls += (double)entries[i].calls.calls;
		counted[entries[i].key.api].total_ns += (double)entries[i].calls.total_ns;
		counted[entries[i].key.api].bytes += (double)entries[i].calls.bytes;
	}
	return cuda_line_totals__apply(shares, taken->n_lines, counted, SO_CUDA_API_COUNT);
}

int cuda_taken__lines(const struct cuda_taken *taken, bool as_sampled, struct cuda_line **out)
{
	_cleanup_free_ struct cuda_line_share *shares = calloc(taken->n_lines + 1, sizeof(*shares));
	struct cuda_line *lines = calloc(taken->n_lines + 1, sizeof(*lines));
	int ret = shares && lines ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < taken->n_lines; i++) {
		lines[i] = taken->lines[i];
		lines[i].sampled = lines[i].calls > lines[i].seen.calls + 0.5;
		shares[i] = share_of(&lines[i]);
	}
	if (!ret && !as_sampled && !are_lacking(taken))
		ret = share_out(taken, shares);
	for (size_t i = 0; !ret && !as_sampled && i < taken->n_lines; i++) {
		lines[i].needless = cuda_line_totals__part(lines[i].needless, lines[i].calls, shares[i].all.calls);
		lines[i].needless_ns =
			cuda_line_totals__part(lines[i].needless_ns, lines[i].total_ns, shares[i].all.total_ns);
		lines[i].calls = shares[i].all.calls;
		lines[i].sampled |= shares[i].lacks;
		lines[i].total_ns = shares[i].all.total_ns;
		lines[i].bytes = shares[i].all.bytes;
	}
	if (ret)
		free(lines);
	else
		*out = lines;
	return ret;
}

void cuda_taken__free(struct cuda_taken *taken)
{
	if (!taken)
		return;
	cuda_snapshot__free(taken->calls);
	cuda_snapshot__free(taken->reported);
	free(taken->lines);
	free(taken->pids);
	json_decref(taken->probes);
	json_decref(taken->libraries);
	json_decref(taken->problems);
	json_decref(taken->in_progress);
	accumulator__release(&taken->stacks);
	free(taken);
}

void cuda_taken__comm(const struct target *t, uint32_t tgid, uint32_t tid, char *out, size_t size)
{
	char path[64];
	_cleanup_fclose_ FILE *f = NULL;

	if (tgid && !tid) {
		snprintf(out, size, "ended threads");
		return;
	}
	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", tgid, tid);
	f = fopen(path, "re");
	if (!f || !fgets(out, (int)size, f))
		snprintf(out, size, "%.16s", t->info.comm);
	out[strcspn(out, "\n")] = '\0';
}

/* Names. */

#define MAX_KERNEL_TEXTS 65536
#define MAX_SYMBOL       4096

static uint64_t kernel_key(uint32_t tgid, uint64_t kernel)
{
	return so_mix(so_mix(kernel, tgid), 2);
}

/* The process's mapping of a file that holds the address; NULL: there is none. */
static const struct so_mapping *mapping_of(const struct cuda_targets *c, const struct process *p, uint64_t address)
{
	const struct so_mapping *all = sampler__mappings(c->sampler);

	for (uint32_t i = 0; p->run && i < p->run->n; i++) {
		const struct so_mapping *m = &all[p->run->first + i];

		if (address >= m->start && address < m->end && m->file)
			return m;
	}
	return NULL;
}

/* The symbol of the function that holds the address, and how far into it that is. */
static bool symbol_of(struct cuda_targets *c, const struct process *p, uint64_t address, char raw[MAX_SYMBOL],
		      uint64_t *offset)
{
	const struct so_mapping *m = mapping_of(c, p, address);
	uint64_t start;

	if (!m || file_registry__symbol(c->files, m->file, address - m->bias, raw, MAX_SYMBOL, &start))
		return false;
	*offset = address - m->bias - start;
	return true;
}

static char *readable(const char raw[MAX_SYMBOL])
{
	return kernel_names__readable(raw, strlen(raw) + 1 == MAX_SYMBOL);
}

/* The name of a host function that begins at the address. Malloc'ed; NULL: it has none. */
static char *host_function(struct cuda_targets *c, const struct process *p, uint64_t address)
{
	char raw[MAX_SYMBOL];
	uint64_t offset;

	return symbol_of(c, p, address, raw, &offset) && !offset ? readable(raw) : NULL;
}

/* The name by the stub that launched it (kernel_names.h), else by what its code launches. caller: a return address. */
static char *stub_of_caller(struct cuda_targets *c, const struct process *p, uint64_t caller)
{
	const struct so_mapping *m = caller ? mapping_of(c, p, caller - 1) : NULL;
	char raw[MAX_SYMBOL];
	uint64_t offset;

	if (!m)
		return NULL;
	if (symbol_of(c, p, caller - 1, raw, &offset) && strstr(raw, "__device_stub_"))
		return readable(raw);
	return file_registry__launch(c->files, m->file, caller - m->bias, raw, MAX_SYMBOL) ? NULL : readable(raw);
}

static char *read_behind(struct cuda_targets *c, const struct process *p, uint64_t handle)
{
	const char *name = handle_names__find(c->handle_names, (uint32_t)p->tgid, handle);

	return name ? kernel_names__readable(name, strlen(name) == SO_CUDA_NAME_BYTES - 1) : NULL;
}

/*
 * A handle that was made before watching began has been told by nobody: then its stub's symbol names it, or what the
 * driver keeps behind it.
 */
static char *name_of(struct cuda_targets *c, const struct process *p, uint64_t kernel, uint64_t caller)
{
	struct kernel_name told;
	char *symbol;

	kernel_names__find(c->kernel_names, (uint32_t)p->tgid, kernel, &told);
	if (told.name && !told.cut)
		return kernel_names__readable(told.name, false);
	symbol = host_function(c, p, told.address ?: kernel);
	symbol = symbol ?: read_behind(c, p, kernel);
	symbol = symbol ?: stub_of_caller(c, p, caller);
	return symbol ?: told.name ? kernel_names__readable(told.name, true) : NULL;
}

void cuda_taken__forget_names(struct cuda_targets *c)
{
	for (size_t i = 0; i < c->n_kernel_texts; i++)
		free(c->kernel_texts[i].text);
	c->n_kernel_texts = 0;
	u64_table__release(&c->kernel_by_handle);
}

static uint64_t generation(const struct cuda_targets *c)
{
	return kernel_names__generation(c->kernel_names) + handle_names__generation(c->handle_names);
}

/* The handle is another kernel's by now, of which nobody has told: no name is better than a wrong one. */
static void drop_text(struct cuda_targets *c, uint64_t key)
{
	uint32_t at;

	if (u64_table__get(&c->kernel_by_handle, key, &at))
		free(TAKE_PTR(c->kernel_texts[at].text));
}

/* Takes the text. Where there are too many, all begin anew: those of processes that live are made again. */
static void keep_text(struct cuda_targets *c, uint64_t key, char *text)
{
	struct kernel_text new = { text, generation(c) };
	uint32_t at;

	if (u64_table__get(&c->kernel_by_handle, key, &at)) {
		free(c->kernel_texts[at].text);
		c->kernel_texts[at] = new;
		return;
	}
	if (c->n_kernel_texts >= MAX_KERNEL_TEXTS)
		cuda_taken__forget_names(c);
	if (ARRAY_RESERVE(c->kernel_texts, c->cap_kernel_texts, c->n_kernel_texts + 1) ||
	    u64_table__set(&c->kernel_by_handle, key, (uint32_t)c->n_kernel_texts)) {
		free(text);
		return;
	}
	c->kernel_texts[c->n_kernel_texts++] = new;
}

/* Names are made under the lock, and most are asked for again and again. */
static bool is_remembered(const struct cuda_targets *c, const struct so_cuda_key *key)
{
	uint32_t at;

	return u64_table__get(&c->kernel_by_handle, kernel_key(key->tgid, key->kernel), &at) &&
	       c->kernel_texts[at].generation == generation(c);
}

static void remember_names(struct cuda_targets *c, const struct cuda_snapshot *calls, uint32_t tgid)
{
	const struct cuda_calls_entry *entries;
	size_t n;

	entries = cuda_snapshot__calls(calls, &n);
	for (size_t i = 0; i < n; i++) {
		const struct so_cuda_key *key = &entries[i].key;
		bool wanted = key->kernel && key->octave < SO_CUDA_UNTIMED && (!tgid || key->tgid == tgid) &&
			      !is_remembered(c, key);
		const struct process *p = wanted ? process_table__find(c->processes, (pid_t)key->tgid) : NULL;
		char *text = p && !p->gone ? name_of(c, p, key->kernel, entries[i].calls.caller) : NULL;

		if (text)
			keep_text(c, kernel_key(key->tgid, key->kernel), text);
		else if (p && !p->gone)
			drop_text(c, kernel_key(key->tgid, key->kernel));
	}
}

/*
 * "void at::add<float>(float*)": "at::add". Linkers fold instances of a template that do the same, so that a stub's
 * symbol may be that of another instance.
 */
static void plain_name(const char *text, char out[MAX_SYMBOL])
{
	static const char anonymous[] = "(anonymous namespace)";
	size_t n = 0;

	for (unsigned depth = 0; *text && n < MAX_SYMBOL - 1; text++) {
		if (!depth && !strncmp(text, anonymous, sizeof(anonymous) - 1))
			text += sizeof(anonymous) - 2;
		else if (*text == '<' || *text == '(')
			depth++;
		else if (*text == '>' || *text == ')')
			depth -= depth > 0;
		else if (!depth && *text == ' ')
			n = 0;
		else if (!depth)
			out[n++] = *text;
	}
	out[n] = '\0';
}

static int compare_name(void *context, uint32_t tgid, uint64_t kernel, const char *name)
{
	struct cuda_targets *c = context;
	_cleanup_free_ char *read = NULL;
	char known[MAX_SYMBOL], found[MAX_SYMBOL];
	uint32_t at;

	/* One that is cut cannot be read. */
	if (strlen(name) == SO_CUDA_NAME_BYTES - 1 ||
	    !u64_table__get(&c->kernel_by_handle, kernel_key(tgid, kernel), &at) || !c->kernel_texts[at].text)
		return -1;
	read = kernel_names__readable(name, false);
	if (!read)
		return -1;
	plain_name(c->kernel_texts[at].text, known);
	plain_name(read, found);
	return !strcmp(known, found);
}

void cuda_taken__remember_names(struct cuda_targets *c, const struct cuda_snapshot *calls, uint32_t tgid)
{
	remember_names(c, calls, tgid);
	if (handle_names__compare(c->handle_names, compare_name, c))
		remember_names(c, calls, tgid);
}

void cuda_taken__learn_names(struct cuda_targets *c, struct target *t)
{
	struct cuda_watch *w = t->of ? t->of->cuda.watch : t->cuda.watch;
	_cleanup_(cuda_snapshot) struct cuda_snapshot *calls = NULL;

	if (!w || cuda_watch__result(w, &calls, NULL))
		return;
	cuda_probes__consume_names(c->probes);
	cuda_taken__remember_names(c, calls, 0);
}

const char *cuda_taken__kernel(const struct cuda_targets *c, uint32_t tgid, uint64_t kernel)
{
	uint32_t at;

	return u64_table__get(&c->kernel_by_handle, kernel_key(tgid, kernel), &at) ? c->kernel_texts[at].text : NULL;
}
