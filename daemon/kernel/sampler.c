// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "bpf/sampler.skel.h"
#include "daemon/kernel/clock_events.h"
#include "daemon/os/privileges.h"
#include "daemon/os/uprobe_links.h"
#include "daemon/os/watchpoint.h"
#include "stakeout/live_thread.h"

#define BATCH       2048
#define RULES_BYTES (SO_MAX_RULES * sizeof(struct so_unwind_rule))

struct sampler {
	struct sampler_bpf *skel;
	struct sampler_handlers handlers;
	struct clock_events *events;
	struct ring_buffer *stacks_ring, *events_ring;
	int shard_fds[SO_MAX_SHARDS];
	unsigned n_shards;
	unsigned open_window; /* 0: window_a, 1: window_b */
	unsigned window_entries;
	uint64_t events_lost_seen;
	struct so_unwind_rule *rules; /* mapped; NULL: not yet */
	struct so_count_key *keys;
	struct so_count *counts;
	bool tail_calls;
	bool multi_probes; /* the kernel has links of many uprobes, which need fewer rights than perf's */
};

struct mark_probe {
	int fd;                /* a link's; -1: the other one */
	struct bpf_link *link; /* NULL: the other one */
};

static int silent(enum libbpf_print_level level, const char *format, va_list ap)
{
	return getenv("STAKEOUT_DEBUG") ? vfprintf(stderr, format, ap) : 0;
}

static int on_stack(void *context, void *data, size_t size)
{
	struct sampler *s = context;
	const struct so_stack_record *r = data;
	const struct so_raw_record *raw = data;
	const struct so_call_record *call = data;
	const struct so_page_record *page = data;
	const struct so_torch_record *torch = data;

	if (size >= sizeof(*r) && r->type == SO_RECORD_STACK &&
	    size >= sizeof(*r) + 8ull * (r->n_user + r->n_kernel + r->n_python * SO_PYTHON_WORDS))
		s->handlers.stack(s->handlers.context, r, (const uint64_t *)(r + 1));
	else if (size >= sizeof(*raw) && raw->type == SO_RECORD_RAW)
		s->handlers.raw(s->handlers.context, raw);
	else if (size >= sizeof(*call) && call->type == SO_RECORD_CALL)
		s->handlers.call(s->handlers.context, call);
	else if (size >= sizeof(*page) && page->type == SO_RECORD_PAGE)
		s->handlers.page(s->handlers.context, page);
	else if (size >= sizeof(*torch) && torch->type == SO_RECORD_TORCH)
		s->handlers.torch(s->handlers.context, torch);
	else if (size >= sizeof(*torch) && torch->type == SO_RECORD_ALLOC)
		s->handlers.alloc(s->handlers.context, torch);
	return 0;
}

static int on_event(void *context, void *data, size_t size)
{
	struct sampler *s = context;

	if (size >= sizeof(struct so_event))
		s->handlers.event(s->handlers.context, data);
	return 0;
}

static int load_error(int code, struct so_error *err)
{
	char why[PRIVILEGES_TEXT];

	if (code == -EPERM)
		return so_err(err, code,
			      "no permission to load eBPF programs: run as root, or with the capabilities "
			      "(it lacks %s)",
			      privileges__why(why));
	if (code == -EACCES)
		return so_err(err, code,
			      "the kernel's verifier refused the eBPF programs, which should not happen: "
			      "please report "
			      "it with what STAKEOUT_DEBUG=1 stakeoutd prints");
	if (code == -ESRCH || code == -ENOENT)
		return so_err(err, code,
			      "the kernel has no type information (/sys/kernel/btf/vmlinux, "
			      "CONFIG_DEBUG_INFO_BTF=y); "
			      "`stakeout check` tells what else is missing");
	return so_err(err, code, "the kernel refused the eBPF programs: %s; `stakeout check` tells what is missing",
		      strerror(-code));
}

static int map_rules(struct sampler *s, struct so_error *err)
{
	void *p = mmap(NULL, RULES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(s->skel->maps.rules), 0);

	if (p == MAP_FAILED)
		return so_err(err, -errno, "cannot map the table of unwind rules: %s", strerror(errno));
	s->rules = p;
	return 0;
}

static int open_rings(struct sampler *s, struct so_error *err)
{
	s->stacks_ring = ring_buffer__new(bpf_map__fd(s->skel->maps.stacks), on_stack, s, NULL);
	if (!s->stacks_ring)
		return so_err(err, -errno, "cannot map the ring buffer of stacks: %s", strerror(errno));
	s->events_ring = ring_buffer__new(bpf_map__fd(s->skel->maps.events), on_event, s, NULL);
	if (!s->events_ring)
		return so_err(err, -errno, "cannot map the ring buffer of events: %s", strerror(errno));
	return 0;
}

static bool has_helper(enum bpf_func_id id)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, id, NULL) == 1;
}

/* What runs when a thread comes to a mark: at a function's entry, or when a watchpoint fires. */
static struct bpf_program *entry_program(const struct sampler *s, unsigned mark)
{
	struct bpf_program *programs[SO_MARKS] = {
		s->skel->progs.on_mark_0,
		s->skel->progs.on_mark_1,
		s->skel->progs.on_mark_2,
		s->skel->progs.on_mark_3,
	};

	return programs[mark];
}

static struct bpf_program *watch_program(const struct sampler *s, unsigned mark)
{
	struct bpf_program *programs[SO_MARKS] = {
		s->skel->progs.on_mark_watch_0,
		s->skel->progs.on_mark_watch_1,
		s->skel->progs.on_mark_watch_2,
		s->skel->progs.on_mark_watch_3,
	};

	return programs[mark];
}

/* Better mechanisms where the kernel has them; what is switched off here, the verifier does not even look at. */
static void choose_mechanisms(struct sampler *s, const struct sampler_options *options)
{
	s->tail_calls = options->force_tail_calls || !has_helper(BPF_FUNC_loop);
	bpf_program__set_autoload(s->skel->progs.sample, !s->tail_calls);
	bpf_program__set_autoload(s->skel->progs.sample_first, s->tail_calls);
	s->skel->rodata->have_task_pt_regs = has_helper(BPF_FUNC_task_pt_regs);
	s->skel->rodata->have_task_btf = has_helper(BPF_FUNC_get_current_task_btf);
	bpf_program__set_autoload(s->skel->progs.sample_chained, s->tail_calls);
	s->multi_probes = uprobe_links__supported(UPROBE_LINKS_MULTI);
	for (unsigned i = 0; s->multi_probes && i < SO_MARKS; i++)
		bpf_program__set_expected_attach_type(entry_program(s, i), UPROBE_LINKS_MULTI);
}

/* The program that a tick runs. */
static struct bpf_program *first_program(const struct sampler *s)
{
	return s->tail_calls ? s->skel->progs.sample_first : s->skel->progs.sample;
}

static int link_chain(struct sampler *s)
{
	uint32_t key = 0, fd;

	if (!s->tail_calls)
		return 0;
	fd = bpf_program__fd(s->skel->progs.sample_chained);
	return bpf_map_update_elem(bpf_map__fd(s->skel->maps.chain), &key, &fd, BPF_ANY) ? -errno : 0;
}

/* A sample to unwind here takes some 150 KB of the ring of stacks, and several CPUs may reach the same code at once. */
static uint32_t ring_bytes(void)
{
	uint32_t bytes = SO_STACKS_RING_BYTES;
	int cpus = libbpf_num_possible_cpus();

	while (bytes < SO_STACKS_RING_MAX_BYTES && (int)(bytes / SO_STACKS_RING_CPU_BYTES) < cpus)
		bytes *= 2;
	return bytes;
}

static int load(struct sampler *s, const struct sampler_options *options, struct so_error *err)
{
	int ret;

	s->skel = sampler_bpf__open();
	if (!s->skel)
		return load_error(-errno, err);
	choose_mechanisms(s, options);
	ret = bpf_map__set_max_entries(s->skel->maps.window_a, s->window_entries);
	ret = ret ?: bpf_map__set_max_entries(s->skel->maps.window_b, s->window_entries);
	ret = ret ?: bpf_map__set_max_entries(s->skel->maps.frame_caches, libbpf_num_possible_cpus());
	ret = ret ?: bpf_map__set_max_entries(s->skel->maps.stacks, ring_bytes());
	ret = ret ?: sampler_bpf__load(s->skel);
	ret = ret ?: link_chain(s);
	/* The tracepoints. The perf_event programs are attached to events later, by clock_events.c. */
	ret = ret ?: sampler_bpf__attach(s->skel);
	return ret ? load_error(ret, err) : 0;
}

int sampler__new(const struct sampler_options *options, const struct sampler_handlers *handlers, struct sampler **out,
		 struct so_error *err)
{
	struct rlimit infinite = { RLIM_INFINITY, RLIM_INFINITY };
	_cleanup_(sampler) struct sampler *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return so_err(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < SO_MAX_SHARDS; i++)
		s->shard_fds[i] = -1;
	s->handlers = *handlers;
	s->window_entries = options->counts_entries ?: SO_WINDOW_ENTRIES;
	s->tail_calls = options->force_tail_calls;
	s->keys = calloc(BATCH, sizeof(*s->keys));
	s->counts = calloc(BATCH, sizeof(*s->counts));
	if (!s->keys || !s->counts)
		return so_err(err, -ENOMEM, "out of memory");

	libbpf_set_print(silent);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL & ~LIBBPF_STRICT_AUTO_RLIMIT_MEMLOCK);
	/* Kernels before 5.11 charge maps to the locked-memory limit; if raising it is not permitted it may suffice. */
	setrlimit(RLIMIT_MEMLOCK, &infinite);
	ret = load(s, options, err);
	if (ret)
		return ret;
	ret = map_rules(s, err);
	ret = ret ?: open_rings(s, err);
	if (ret)
		return ret;
	ret = clock_events__new(first_program(s), &s->events);
	if (ret)
		return so_err(err, ret, "out of memory");
	*out = TAKE_PTR(s);
	return 0;
}

void sampler__set_context(struct sampler *s, void *context)
{
	s->handlers.context = context;
}

void sampler__free(struct sampler *s)
{
	if (!s)
		return;
	clock_events__free(s->events);
	ring_buffer__free(s->stacks_ring);
	ring_buffer__free(s->events_ring);
	for (unsigned i = 0; i < s->n_shards; i++)
		close(s->shard_fds[i]);
	if (s->rules)
		munmap(s->rules, RULES_BYTES);
	sampler_bpf__destroy(s->skel);
	free(s->keys);
	free(s->counts);
	free(s);
}

void sampler__shared(const struct sampler *s, struct sampler_shared *out)
{
	const char *globals = (const char *)s->skel->bss;

	*out = (struct sampler_shared){
		.rules = bpf_map__fd(s->skel->maps.rules),
		.shards = bpf_map__fd(s->skel->maps.shards),
		.processes = bpf_map__fd(s->skel->maps.processes),
		.stacks = bpf_map__fd(s->skel->maps.stacks),
		.globals = bpf_map__fd(s->skel->maps.bss),
		.mappings_at = (uint32_t)((const char *)s->skel->bss->mappings - globals),
		.pythons_at = (uint32_t)((const char *)s->skel->bss->pythons - globals),
		.globals_bytes = bpf_map__value_size(s->skel->maps.bss),
		.have_loop = !s->tail_calls,
	};
}

static int reuse(struct bpf_object *object, const char *name, int fd)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);

	return map ? bpf_map__reuse_fd(map, fd) : -ENOENT;
}

int sampler__share(const struct sampler_shared *shared, struct bpf_object *object, uint32_t walk_caches)
{
	int ret = bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "walk_caches"), walk_caches);

	ret = ret ?: bpf_map__set_value_size(bpf_object__find_map_by_name(object, "tables"), shared->globals_bytes);
	ret = ret ?: reuse(object, "tables", shared->globals);
	ret = ret ?: reuse(object, "rules", shared->rules);
	ret = ret ?: reuse(object, "shards", shared->shards);
	ret = ret ?: reuse(object, "processes", shared->processes);
	return ret ?: reuse(object, "stacks", shared->stacks);
}

struct so_python *sampler__pythons(struct sampler *s)
{
	return s->skel->bss->pythons;
}

struct so_mapping *sampler__mappings(struct sampler *s)
{
	return s->skel->bss->mappings;
}

struct so_unwind_rule *sampler__rules(struct sampler *s)
{
	return s->rules;
}

static int make_shard(struct sampler *s)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd = -1;
	uint32_t key = s->n_shards;

	if (s->n_shards == SO_MAX_SHARDS)
		return -ENOSPC;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_shard", sizeof(key), SO_SHARD_WORDS * sizeof(uint32_t), 1,
			    &opts);
	if (fd < 0)
		return fd;
	if (bpf_map_update_elem(bpf_map__fd(s->skel->maps.shards), &key, &fd, BPF_ANY))
		return -errno;
	s->shard_fds[s->n_shards++] = TAKE_FD(fd);
	return 0;
}

static int make_shards_up_to(struct sampler *s, unsigned i)
{
	int ret = 0;

	while (!ret && i >= s->n_shards)
		ret = make_shard(s);
	return ret;
}

int sampler__shard_open(struct sampler *s, unsigned i, uint32_t **words)
{
	int ret = make_shards_up_to(s, i);
	void *p;

	if (ret)
		return ret;
	p = mmap(NULL, SO_SHARD_WORDS * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED, s->shard_fds[i], 0);
	if (p == MAP_FAILED)
		return -errno;
	*words = p;
	return 0;
}

void sampler__shard_close(uint32_t *words)
{
	if (words)
		munmap(words, SO_SHARD_WORDS * sizeof(uint32_t));
}

int sampler__words_open(struct sampler *s, unsigned i, uint32_t first, uint32_t n, struct sampler_words *out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = (uint64_t)first * sizeof(uint32_t);
	uint64_t from = begin & ~(page - 1), end = begin + (uint64_t)n * sizeof(uint32_t);
	int ret = make_shards_up_to(s, i);
	void *p;

	if (ret)
		return ret;
	p = mmap(NULL, end - from, PROT_READ | PROT_WRITE, MAP_SHARED, s->shard_fds[i], (off_t)from);
	if (p == MAP_FAILED)
		return -errno;
	*out = (struct sampler_words){ (uint32_t *)((char *)p + (begin - from)), p, end - from };
	return 0;
}

void sampler__words_close(struct sampler_words *words)
{
	if (words->map)
		munmap(words->map, words->bytes);
	*words = (struct sampler_words){ 0 };
}

int sampler__set_process(struct sampler *s, pid_t tgid, const struct so_process *process)
{
	uint32_t key = tgid;

	return bpf_map_update_elem(bpf_map__fd(s->skel->maps.processes), &key, process, BPF_ANY) ? -errno : 0;
}

int sampler__get_process(struct sampler *s, pid_t tgid, struct so_process *process)
{
	uint32_t key = tgid;

	return bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.processes), &key, process) ? -errno : 0;
}

int sampler__delete_process(struct sampler *s, pid_t tgid)
{
	uint32_t key = tgid;

	return bpf_map_delete_elem(bpf_map__fd(s->skel->maps.processes), &key) ? -errno : 0;
}

size_t sampler__list_processes(struct sampler *s, pid_t *out, size_t room)
{
	int fd = bpf_map__fd(s->skel->maps.processes);
	uint32_t key, *before = NULL;
	size_t n = 0;

	while (n < room && !bpf_map_get_next_key(fd, before, &key)) {
		out[n++] = (pid_t)key;
		before = &key;
	}
	return n;
}

int sampler__set_events(struct sampler *s, unsigned rate_hz, const cpu_set_t *cpus, struct so_error *err)
{
	return clock_events__set(s->events, rate_hz, cpus, err);
}

void sampler__event_cpus(const struct sampler *s, cpu_set_t *cpus)
{
	clock_events__cpus(s->events, cpus);
}

int sampler__stacks_fd(const struct sampler *s)
{
	return ring_buffer__epoll_fd(s->stacks_ring);
}

int sampler__events_fd(const struct sampler *s)
{
	return ring_buffer__epoll_fd(s->events_ring);
}

void sampler__consume_stacks(struct sampler *s)
{
	ring_buffer__consume(s->stacks_ring);
}

void sampler__consume_events(struct sampler *s)
{
	ring_buffer__consume(s->events_ring);
}

uint64_t sampler__take_lost_events(struct sampler *s)
{
	uint64_t now = __atomic_load_n(&s->skel->bss->events_lost, __ATOMIC_RELAXED);
	uint64_t lost = now - s->events_lost_seen;

	s->events_lost_seen = now;
	return lost;
}

static int hand_over_counts(struct sampler *s, int fd)
{
	uint32_t n, batch = 0, next;
	bool first = true;

	for (;;) {
		int ret;

		n = BATCH;
		ret = bpf_map_lookup_and_delete_batch(fd, first ? NULL : &batch, &next, s->keys, s->counts, &n, NULL);
		if (ret && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < n; i++) {
			if (s->keys[i].tgid)
				s->handlers.count(s->handlers.context, &s->keys[i], &s->counts[i]);
		}
		if (ret)
			return 0;
		batch = next;
		first = false;
	}
}

int sampler__drain(struct sampler *s, struct so_error *err)
{
	int fds[2] = { bpf_map__fd(s->skel->maps.window_a), bpf_map__fd(s->skel->maps.window_b) };
	unsigned old = s->open_window;
	uint32_t key = 0;
	int ret;

	/* The kernel returns from an update of a map in a map only when no program can still hold the old entry. */
	if (bpf_map_update_elem(bpf_map__fd(s->skel->maps.open_window), &key, &fds[!old], BPF_ANY))
		return so_err(err, -errno, "cannot swap the window of counts: %s", strerror(errno));
	s->open_window = !old;
	sampler__consume_stacks(s);
	ret = hand_over_counts(s, fds[old]);
	return ret ? so_err(err, ret, "cannot read the window of counts: %s", strerror(-ret)) : 0;
}

int sampler__probe_mark(struct sampler *s, unsigned mark, pid_t pid, const char *path, uint64_t offset,
			struct mark_probe **out)
{
	struct mark_probe *probe = calloc(1, sizeof(*probe));
	int ret = 0;

	if (!probe)
		return -ENOMEM;
	probe->fd = -1;
	if (s->multi_probes) {
		probe->fd = uprobe_links__make(bpf_program__fd(entry_program(s, mark)), UPROBE_LINKS_MULTI, false, path,
					       &offset, &(const uint64_t){ 0 }, 1, pid);
		ret = probe->fd < 0 ? probe->fd : 0;
	} else {
		probe->link =
			bpf_program__attach_uprobe(entry_program(s, mark), false, live_thread__of(pid), path, offset);
		ret = probe->link ? 0 : -errno;
	}
	if (ret)
		free(probe);
	else
		*out = probe;
	return ret;
}

int sampler__watch_mark(struct sampler *s, unsigned mark, pid_t tid, uint64_t address, struct mark_probe **out)
{
	struct mark_probe *probe = calloc(1, sizeof(*probe));
	int fd = probe ? watchpoint__open(tid, address) : -ENOMEM, ret;

	if (fd < 0) {
		free(probe);
		return fd;
	}
	/* The link closes the event. */
	probe->fd = -1;
	probe->link = bpf_program__attach_perf_event(watch_program(s, mark), fd);
	if (!probe->link) {
		ret = -errno;
		close(fd);
		free(probe);
		return ret;
	}
	*out = probe;
	return 0;
}

void sampler__end_probe(struct mark_probe *probe)
{
	if (!probe)
		return;
	bpf_link__destroy(probe->link);
	if (probe->fd >= 0)
		close(probe->fd);
	free(probe);
}

unsigned sampler__window_entries(const struct sampler *s)
{
	return s->window_entries;
}

/* Room for a value of each CPU, and how many they are; NULL: *cpus is -errno. */
static void *room_for_cpus(size_t size, int *cpus)
{
	int n = libbpf_num_possible_cpus();
	void *values = n > 0 ? calloc(n, size) : NULL;

	*cpus = values ? n : n > 0 ? -ENOMEM : n ?: -EIO;
	return values;
}

int sampler__read_slot(struct sampler *s, unsigned slot, struct so_slot *sum)
{
	int cpus;
	_cleanup_free_ struct so_slot *values = room_for_cpus(sizeof(*values), &cpus);
	uint32_t key = slot;

	if (!values)
		return cpus;
	if (bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.slots), &key, values))
		return -errno;
	memset(sum, 0, sizeof(*sum));
	for (int cpu = 0; cpu < cpus; cpu++) {
		sum->taken += values[cpu].taken;
		sum->run_ns += values[cpu].run_ns;
		sum->steps_lost += values[cpu].steps_lost;
		sum->entries_lost += values[cpu].entries_lost;
		for (int i = 0; i < SO_LOSS_COUNT; i++)
			sum->lost[i] += values[cpu].lost[i];
	}
	return 0;
}

int sampler__clear_slot(struct sampler *s, unsigned slot)
{
	int cpus;
	_cleanup_free_ struct so_slot *values = room_for_cpus(sizeof(*values), &cpus);
	uint32_t key = slot;

	if (!values)
		return cpus;
	return bpf_map_update_elem(bpf_map__fd(s->skel->maps.slots), &key, values, BPF_ANY) ? -errno : 0;
}

static int program_time(const struct sampler *s, enum so_program program, struct so_program_time *sum)
{
	int cpus;
	_cleanup_free_ struct so_program_time *values = room_for_cpus(sizeof(*values), &cpus);
	uint32_t key = program;

	if (!values)
		return cpus;
	if (bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.program_times), &key, values))
		return -errno;
	memset(sum, 0, sizeof(*sum));
	for (int cpu = 0; cpu < cpus; cpu++) {
		sum->runs += values[cpu].runs;
		sum->ns += values[cpu].ns;
	}
	return 0;
}

json_t *sampler__programs(const struct sampler *s)
{
	const struct bpf_program *programs[SO_PROGRAM_COUNT] = {
		[SO_PROGRAM_SAMPLE] = first_program(s),
		[SO_PROGRAM_FORK] = s->skel->progs.on_fork,
		[SO_PROGRAM_EXEC] = s->skel->progs.on_exec,
		[SO_PROGRAM_EXIT] = s->skel->progs.on_exit,
	};
	json_t *all = json_object();

	for (unsigned i = 0; i < SO_PROGRAM_COUNT; i++) {
		struct so_program_time time;

		if (!program_time(s, i, &time))
			json_object_set_new(all, bpf_program__name(programs[i]),
					    json_pack("{s:I, s:I}", "run_count", (json_int_t)time.runs, "run_ns",
						      (json_int_t)time.ns));
	}
	return all;
}

json_t *sampler__mechanisms(const struct sampler *s)
{
	return json_pack("{s:s, s:s, s:s}", "sampling", "one CPU clock event a CPU, filtered by process in eBPF",
			 "unwinder", s->tail_calls ? "tail calls" : "bpf_loop", "processes",
			 "BTF tracepoints sched_process_fork, exec, exit");
}

uint64_t sampler__table_bytes(const struct sampler *s)
{
	return (uint64_t)s->n_shards * SO_SHARD_WORDS * 4 + RULES_BYTES;
}
