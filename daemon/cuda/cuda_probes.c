// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf/cuda/cuda.skel.h"
#include "daemon/cuda/cuda_perf_events.h"
#include "daemon/os/fd_closer.h"
#include "daemon/os/log.h"
#include "daemon/os/uprobe_links.h"
#include "daemon/os/privileges.h"
#include "stakeout/array.h"

#define BATCH 512

/* Of links that are being closed: the process, and the slot. */
#define PID_MASK  0xffffffffull
#define SLOT_MASK (0xffffull << 32)

struct cuda_probes {
	struct cuda_bpf *skel;
	struct cuda_handlers handlers;
	struct ring_buffer *names_ring;
	enum cuda_probe_kind kind;
	struct cuda_prices prices;
	struct cuda_perf_events *perf; /* NULL: another kind */
	struct fd_closer *closer;      /* of the other kinds' links */
	unsigned open_window;          /* 0: a, 1: b */
};

struct cuda_link {
	int fds[2];               /* session: one; multi: entry, return */
	struct fd_closer *closer; /* borrowed */
	uint64_t tag;
	struct cuda_perf_set *perf;
};

const char *cuda_probes__kind_word(enum cuda_probe_kind kind)
{
	static const char *const words[] = { "session", "multi", "perf" };

	return words[kind];
}

static int on_name(void *context, void *data, size_t size)
{
	struct cuda_probes *p = context;

	if (size >= sizeof(struct so_cuda_name))
		p->handlers.name(p->handlers.context, data);
	return 0;
}

/* Loading. */

static int set_kind(struct cuda_bpf *skel, enum cuda_probe_kind kind)
{
	bool session = kind == CUDA_PROBE_SESSION;
	int ret = bpf_program__set_autoload(skel->progs.cuda_session, session);

	ret = ret ?: bpf_program__set_autoload(skel->progs.cuda_enter, !session);
	ret = ret ?: bpf_program__set_autoload(skel->progs.cuda_leave, !session);
	if (session)
		ret = ret ?: bpf_program__set_expected_attach_type(skel->progs.cuda_session, UPROBE_LINKS_SESSION);
	if (kind == CUDA_PROBE_MULTI) {
		ret = ret ?: bpf_program__set_expected_attach_type(skel->progs.cuda_enter, UPROBE_LINKS_MULTI);
		ret = ret ?: bpf_program__set_expected_attach_type(skel->progs.cuda_leave, UPROBE_LINKS_MULTI);
	}
	return ret;
}

static int load_with(const struct sampler_shared *shared, enum cuda_probe_kind kind, bool checks_mappings,
		     struct cuda_bpf **out)
{
	struct cuda_bpf *skel = cuda_bpf__open();
	uint32_t buffers = (uint32_t)libbpf_num_possible_cpus() * SO_CUDA_STACKS_A_CPU;
	int ret;

	if (!skel)
		return -errno;
	skel->rodata->mappings_at = shared->mappings_at;
	skel->rodata->pythons_at = shared->pythons_at;
	skel->rodata->have_loop = shared->have_loop;
	skel->rodata->perf_events = kind == CUDA_PROBE_PERF;
	skel->rodata->checks_mappings = checks_mappings;
	skel->rodata->searches_states = checks_mappings;
	ret = set_kind(skel, kind);
	ret = ret ?: bpf_map__set_max_entries(skel->maps.cuda_buffers, buffers);
	ret = ret ?: sampler__share(shared, skel->obj, buffers);
	ret = ret ?: cuda_bpf__load(skel);
	if (ret) {
		cuda_bpf__destroy(skel);
		return ret;
	}
	*out = skel;
	return 0;
}

/* Without the check of mappings where a verifier finds it too complex: a replaced one is known at the next scan. */
static int load(const struct sampler_shared *shared, enum cuda_probe_kind kind, struct cuda_bpf **out)
{
	int ret = load_with(shared, kind, true, out);

	if (ret != -E2BIG)
		return ret;
	log__info("CUDA probes: this kernel's verifier accepts only a simpler stack walk: a library that replaces another "
		  "at its address is recognized at the next scan, and nested Python interpreters are not searched");
	return load_with(shared, kind, false, out);
}

static bool is_supported(enum cuda_probe_kind kind)
{
	return kind == CUDA_PROBE_PERF ||
	       uprobe_links__supported(kind == CUDA_PROBE_SESSION ? UPROBE_LINKS_SESSION : UPROBE_LINKS_MULTI);
}

static int new_perf(struct cuda_probes *p)
{
	return cuda_perf_events__new(bpf_program__fd(p->skel->progs.cuda_enter),
				     bpf_program__fd(p->skel->progs.cuda_leave), bpf_map__fd(p->skel->maps.cuda_heat),
				     &p->perf);
}

static enum cuda_probe_kind best_kind(void)
{
	const char *word = getenv("STAKEOUT_CUDA_PROBES");

	for (enum cuda_probe_kind kind = CUDA_PROBE_SESSION; word && kind <= CUDA_PROBE_PERF; kind++) {
		if (strcmp(word, cuda_probes__kind_word(kind)) == 0)
			return kind;
	}
	return CUDA_PROBE_SESSION;
}

/* A kind that loads may still be refused: calibration uses its links. */
static int load_best(struct cuda_probes *p, const struct sampler_shared *shared)
{
	int ret = -ENOTSUP;

	for (p->kind = best_kind(); p->kind <= CUDA_PROBE_PERF; p->kind++) {
		if (!is_supported(p->kind))
			continue;
		ret = load(shared, p->kind, &p->skel);
		if (!ret && p->kind == CUDA_PROBE_PERF)
			ret = new_perf(p);
		ret = ret ?: p->handlers.calibrate(p, &p->prices);
		if (!ret)
			return 0;
		/* The next kind's cost is not to have these in it. */
		fd_closer__drain(p->closer, 0, 0);
		cuda_perf_events__free(TAKE_PTR(p->perf));
		cuda_bpf__destroy(p->skel);
		p->skel = NULL;
	}
	return ret;
}

static void set_own_times(struct cuda_probes *p)
{
	for (unsigned slot = 0; slot < SO_CUDA_SLOTS; slot++) {
		struct so_cuda_control *control = &p->skel->bss->control[slot];

		control->floor_ns = (uint32_t)p->prices.floor_ns;
		control->nested_ns = (uint32_t)p->prices.nested_ns;
		control->stepped_ns = (uint32_t)p->prices.stepped_ns;
	}
}

int cuda_probes__new(const struct sampler *sampler, const struct cuda_handlers *handlers, struct cuda_probes **out,
		     struct so_error *err)
{
	_cleanup_(cuda_probes) struct cuda_probes *p = calloc(1, sizeof(*p));
	struct sampler_shared shared;
	char why[PRIVILEGES_TEXT];
	int ret;

	if (!p)
		return so_err(err, -ENOMEM, "out of memory");
	p->handlers = *handlers;
	ret = fd_closer__new(&p->closer);
	if (ret)
		return so_err(err, ret, "cannot make a thread: %s", strerror(-ret));
	if (!libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, NULL))
		return so_err(err, -ENOTSUP,
			      "CUDA calls cannot be timed on this kernel: it has no BPF cookies, by which a "
			      "probe knows "
			      "its function; Linux 5.15 or newer is needed");
	sampler__shared(sampler, &shared);
	ret = load_best(p, &shared);
	if (ret)
		return so_err(err, -ENOTSUP,
			      "the kernel refused every kind of CUDA probe (%s): they need Linux 5.15 with "
			      "CONFIG_UPROBE_EVENTS, CAP_BPF and CAP_PERFMON (it lacks %s)",
			      strerror(-ret), privileges__why(why));
	set_own_times(p);
	p->names_ring = ring_buffer__new(bpf_map__fd(p->skel->maps.cuda_names), on_name, p, NULL);
	if (!p->names_ring)
		return so_err(err, -errno, "cannot map the ring buffer of kernel names: %s", strerror(errno));
	*out = TAKE_PTR(p);
	return 0;
}

void cuda_probes__free(struct cuda_probes *p)
{
	if (!p)
		return;
	ring_buffer__free(p->names_ring);
	fd_closer__free(p->closer);
	cuda_perf_events__free(p->perf);
	cuda_bpf__destroy(p->skel);
	free(p);
}

enum cuda_probe_kind cuda_probes__kind(const struct cuda_probes *p)
{
	return p->kind;
}

struct cuda_prices cuda_probes__prices(const struct cuda_probes *p)
{
	return p->prices;
}

struct so_cuda_control *cuda_probes__control(struct cuda_probes *p, uint32_t slot)
{
	return &p->skel->bss->control[slot % SO_CUDA_SLOTS];
}

/* Links. */

static uint64_t tag_of(pid_t pid, uint32_t slot)
{
	return (uint64_t)slot << 32 | (uint32_t)pid;
}

static struct cuda_link *new_link(const struct cuda_probes *p, uint64_t tag)
{
	struct cuda_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->fds[0] = link->fds[1] = -1;
	link->closer = p->closer;
	link->tag = tag;
	return link;
}

void cuda_link__free(struct cuda_link *link)
{
	if (!link)
		return;
	for (int i = 0; i < 2; i++) {
		if (link->fds[i] >= 0)
			fd_closer__give(link->closer, link->fds[i], link->tag);
	}
	cuda_perf_set__free(link->perf);
	free(link);
}

static int link_places(const struct bpf_program *program, uint32_t type, bool at_return, const char *path,
		       const struct cuda_places *places, pid_t pid, int *fd)
{
	int ret = uprobe_links__make(bpf_program__fd(program), type, at_return, path, places->offsets, places->cookies,
				     places->n, pid);

	if (ret < 0)
		return ret;
	*fd = ret;
	return 0;
}

static int attach_multi(const struct cuda_probes *p, struct cuda_link *link, const char *path,
			const struct cuda_places *places, pid_t pid)
{
	int ret;

	/* The process may be another program now, whose calls would be counted twice. */
	fd_closer__wait(p->closer, tag_of(pid, 0), PID_MASK);
	if (p->kind == CUDA_PROBE_SESSION)
		return link_places(p->skel->progs.cuda_session, UPROBE_LINKS_SESSION, false, path, places, pid,
				   &link->fds[0]);
	/* Returns first: an entry that is seen has its return seen. */
	ret = link_places(p->skel->progs.cuda_leave, UPROBE_LINKS_MULTI, true, path, places, pid, &link->fds[1]);
	return ret
		       ?: link_places(p->skel->progs.cuda_enter, UPROBE_LINKS_MULTI, false, path, places, pid,
				      &link->fds[0]);
}

/* They are of one process; but the event of a return that another's entry has made is told by the cookie alone. */
static int attach_perf(struct cuda_probes *p, struct cuda_link *link, const char *path,
		       const struct cuda_places *places, pid_t pid)
{
	struct so_cuda_owner owner = { .tgid = (uint32_t)pid };
	uint8_t yes = 1;

	for (uint32_t i = 0; i < places->n; i++) {
		uint32_t library = SO_CUDA_COOKIE_LIBRARY(places->cookies[i]);

		if (i && library == owner.library)
			continue;
		owner.library = library;
		if (bpf_map_update_elem(bpf_map__fd(p->skel->maps.cuda_owners), &owner, &yes, BPF_ANY))
			return -errno;
	}
	return cuda_perf_events__attach(p->perf, pid, path, places->offsets, places->cookies, places->n, &link->perf);
}

int cuda_probes__attach_places(struct cuda_probes *p, pid_t pid, int fd, const struct cuda_places *places,
			       struct cuda_link **out)
{
	_cleanup_(cuda_link) struct cuda_link *link = new_link(p, tag_of(pid, SO_CUDA_COOKIE_SLOT(places->cookies[0])));
	char path[64];
	int ret;

	if (!link)
		return -ENOMEM;
	/* Through the descriptor: another mount namespace may hide the path. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	if (p->kind == CUDA_PROBE_PERF)
		ret = attach_perf(p, link, path, places, pid);
	else
		ret = attach_multi(p, link, path, places, pid);
	if (!ret)
		*out = TAKE_PTR(link);
	return ret;
}

bool cuda_probes__are_crowded(struct cuda_probes *p)
{
	return p->perf && cuda_perf_events__pending(p->perf) >= CUDA_PROBES_CROWD;
}

bool cuda_probes__are_going(struct cuda_probes *p, pid_t pid)
{
	return fd_closer__has(p->closer, tag_of(pid, 0), PID_MASK);
}

static bool is_stepped(const struct cuda_probes *p, const struct probe_site *site)
{
	return !site->emulated && (!site->long_nop || p->prices.nops_stepped);
}

static bool is_chosen(const struct cuda_choice *choice, const struct cuda_name *name)
{
	if (name->type == CUDA_NAME_NAMER)
		return choice->others;
	return (choice->units >> cuda_names__unit(name->number) & 1) != choice->others;
}

int cuda_probes__attach(struct cuda_probes *p, pid_t pid, uint32_t slot, uint32_t number, int fd,
			const struct cuda_library *library, const struct cuda_choice *choice, struct cuda_link **out,
			struct so_error *err)
{
	_cleanup_free_ uint64_t *offsets = calloc(library->n_functions + 1, sizeof(*offsets));
	_cleanup_free_ uint64_t *cookies = calloc(library->n_functions + 1, sizeof(*cookies));
	struct cuda_places places = { offsets, cookies, 0 };
	uint32_t n = 0;
	int ret;

	if (!offsets || !cookies)
		return so_err(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < library->n_functions; i++) {
		const struct cuda_function *f = &library->functions[i];
		bool namer = f->name.type == CUDA_NAME_NAMER;

		if (!is_chosen(choice, &f->name))
			continue;
		offsets[n] = f->offset;
		cookies[n++] = SO_CUDA_COOKIE(f->name.number + (namer ? SO_CUDA_API_COUNT : 0u),
					      choice->generation << 12 | slot, number) |
			       (is_stepped(p, &f->site) ? SO_CUDA_COOKIE_STEPPED : 0) |
			       (f->name.per_thread ? SO_CUDA_COOKIE_PER_THREAD : 0);
	}
	if (!n) {
		*out = NULL;
		return 0;
	}
	places.n = n;
	ret = cuda_probes__attach_places(p, pid, fd, &places, out);
	return ret ? so_err(err, ret, "the kernel refused the probes: %s", uprobe_links__error(ret)) : 0;
}

/* Maps. */

/* Without it a nested call may count by itself, when the probes go on in the middle of its outer one. */
void cuda_probes__set_runtimes(struct cuda_probes *p, pid_t pid, const struct so_cuda_runtimes *runtimes)
{
	uint32_t key = (uint32_t)pid;

	bpf_map_update_elem(bpf_map__fd(p->skel->maps.cuda_runtimes), &key, runtimes, BPF_ANY);
}

/* A per-CPU map's value of one key, of 64-bit words: the sum over the CPUs. */
static int sum_of_cpus(const struct bpf_map *map, uint32_t key, __u64 *sum, size_t words)
{
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ __u64 *values = cpus > 0 ? calloc((size_t)cpus * words, sizeof(*values)) : NULL;

	if (!values)
		return -ENOMEM;
	if (bpf_map_lookup_elem(bpf_map__fd(map), &key, values))
		return -errno;
	memset(sum, 0, words * sizeof(*sum));
	for (size_t i = 0; i < (size_t)cpus * words; i++)
		sum[i % words] += values[i];
	return 0;
}

static int clear_cpus(const struct bpf_map *map, uint32_t key, size_t bytes)
{
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ void *values = cpus > 0 ? calloc(cpus, bytes) : NULL;

	if (!values)
		return -ENOMEM;
	return bpf_map_update_elem(bpf_map__fd(map), &key, values, BPF_ANY) ? -errno : 0;
}

int cuda_probes__slot(struct cuda_probes *p, uint32_t slot, struct so_cuda_slot *sum)
{
	return sum_of_cpus(p->skel->maps.cuda_slots, slot, (__u64 *)sum, CUDA_SLOT_WORDS);
}

int cuda_probes__clear_slot(struct cuda_probes *p, uint32_t slot)
{
	/* Probes of the slot's former target; one's program may still be running. */
	fd_closer__drain(p->closer, tag_of(0, slot), SLOT_MASK);
	p->skel->bss->call_rates[slot % SO_CUDA_SLOTS] = (struct so_cuda_call_rate){ 0 };
	return clear_cpus(p->skel->maps.cuda_slots, slot, sizeof(struct so_cuda_slot));
}

/* pidfd_open(2), since Linux 6.9; the C library's headers may be older. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

int cuda_probes__thread(const struct cuda_probes *p, pid_t tid, struct so_cuda_call *out)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);

	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_pidfd_open, tid, 0);
	if (fd < 0)
		return -errno;
	return bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.cuda_threads), &fd, out) ? -errno : 0;
}

typedef int visit_fn(void *context, const void *key, const void *value);

/* All entries of a hash map, a batch at a time; with `take` they are removed as well. */
static int visit_map(const struct bpf_map *map, bool take, visit_fn *visit, void *context)
{
	size_t key_size = bpf_map__key_size(map), value_size = bpf_map__value_size(map);
	_cleanup_free_ char *keys = calloc(BATCH, key_size), *values = calloc(BATCH, value_size);
	uint32_t batch = 0, next, n;
	bool first = true;
	int ret = 0;

	if (!keys || !values)
		return -ENOMEM;
	for (;;) {
		int end;

		n = BATCH;
		end = (take ? bpf_map_lookup_and_delete_batch : bpf_map_lookup_batch)(
			bpf_map__fd(map), first ? NULL : &batch, &next, keys, values, &n, NULL);
		if (end && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; !ret && i < n; i++)
			ret = visit(context, keys + i * key_size, values + i * value_size);
		if (ret || end)
			return ret;
		batch = next;
		first = false;
	}
}

struct taking {
	bool (*takes)(void *context, uint32_t tgid);
	void *context;
	struct cuda_snapshot *out;
};

/* All keys begin with the process. */
static bool is_taken(const struct taking *t, const void *key)
{
	return !t->takes || t->takes(t->context, *(const uint32_t *)key);
}

static int add_calls(void *context, const void *key, const void *value)
{
	const struct taking *t = context;

	return is_taken(t, key) ? cuda_snapshot__add_calls(t->out, key, value) : 0;
}

static int add_error(void *context, const void *key, const void *value)
{
	const struct taking *t = context;

	return is_taken(t, key) ? cuda_snapshot__add_error(t->out, key, *(const __u64 *)value) : 0;
}

static int add_site(void *context, const void *key, const void *value)
{
	const struct taking *t = context;

	return is_taken(t, key) ? cuda_snapshot__add_site(t->out, key, value) : 0;
}

int cuda_probes__snapshot(struct cuda_probes *p, uint32_t slot, bool (*takes)(void *, uint32_t tgid), void *context,
			  struct cuda_snapshot *out)
{
	struct taking taking = { takes, context, out };
	struct so_cuda_slot sum;
	int ret = visit_map(p->skel->maps.cuda_calls, false, add_calls, &taking);

	ret = ret ?: visit_map(p->skel->maps.cuda_errors, false, add_error, &taking);
	ret = ret ?: visit_map(p->skel->maps.cuda_sites, false, add_site, &taking);
	ret = ret ?: cuda_probes__slot(p, slot, &sum);
	return ret ?: cuda_snapshot__add_slot(out, slot, &sum, 1);
}

struct visiting {
	int (*add)(void *context, uint32_t tgid, uint32_t tid);
	void *context;
};

static int visit_thread(void *context, const void *key, const void *value)
{
	const struct visiting *v = context;
	const struct so_cuda_key *of = key;

	return v->add(v->context, of->tgid, of->tid);
}

int cuda_probes__each_thread(struct cuda_probes *p, int (*add)(void *context, uint32_t tgid, uint32_t tid),
			     void *context)
{
	struct visiting visiting = { add, context };

	return visit_map(p->skel->maps.cuda_calls, false, visit_thread, &visiting);
}

int cuda_probes__take_calls(struct cuda_probes *p, const struct so_cuda_key *key, struct so_cuda_calls *out)
{
	return bpf_map_lookup_and_delete_elem(bpf_map__fd(p->skel->maps.cuda_calls), key, out) ? -errno : 0;
}

/* Keys to be removed, collected first: a map does not like to be changed under an iteration. */
struct doomed {
	const struct taking *taking;
	size_t key_size, n, capacity;
	char *keys;
};

static int collect_doomed(void *context, const void *key, const void *value)
{
	struct doomed *d = context;
	void *more;

	if (!is_taken(d->taking, key))
		return 0;
	more = array__reserve(d->keys, &d->capacity, d->n + 1, d->key_size);
	if (!more)
		return -ENOMEM;
	d->keys = more;
	memcpy(d->keys + d->n++ * d->key_size, key, d->key_size);
	return 0;
}

static void forget_in(const struct bpf_map *map, const struct taking *taking)
{
	struct doomed d = { .taking = taking, .key_size = bpf_map__key_size(map) };

	visit_map(map, false, collect_doomed, &d);
	for (size_t i = 0; i < d.n; i++)
		bpf_map_delete_elem(bpf_map__fd(map), d.keys + i * d.key_size);
	free(d.keys);
}

void cuda_probes__forget(struct cuda_probes *p, bool (*takes)(void *, uint32_t tgid), void *context)
{
	const struct taking taking = { .takes = takes, .context = context };

	forget_in(p->skel->maps.cuda_calls, &taking);
	forget_in(p->skel->maps.cuda_errors, &taking);
	forget_in(p->skel->maps.cuda_sites, &taking);
	forget_in(p->skel->maps.cuda_allocations, &taking);
	forget_in(p->skel->maps.cuda_runtimes, &taking);
	forget_in(p->skel->maps.cuda_owners, &taking);
}

void cuda_probes__consume_names(struct cuda_probes *p)
{
	ring_buffer__consume(p->names_ring);
}

static int hand_over_line(void *context, const void *key, const void *value)
{
	struct cuda_probes *p = context;

	if (((const struct so_cuda_line_key *)key)->tgid)
		p->handlers.line(p->handlers.context, key, value);
	return 0;
}

int cuda_probes__drain(struct cuda_probes *p, struct sampler *sampler)
{
	const struct bpf_map *windows[2] = { p->skel->maps.cuda_window_a, p->skel->maps.cuda_window_b };
	const struct bpf_map *old = windows[p->open_window], *fresh = windows[!p->open_window];
	uint32_t key = 0;
	int fd = bpf_map__fd(fresh);

	/* Returns when no program holds the old one any more. */
	if (bpf_map_update_elem(bpf_map__fd(p->skel->maps.cuda_open_window), &key, &fd, BPF_ANY))
		return -errno;
	p->open_window = !p->open_window;
	sampler__consume_stacks(sampler);
	return visit_map(old, true, hand_over_line, p);
}
