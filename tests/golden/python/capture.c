// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records an interpreter: runs nested.py (from the working directory) under it until its threads stand still, and keeps
 * the memory that stakeout reads of it, the frames that the interpreter tells of, and the native ones that the referees
 * find (tests/golden/referee.h). tests/golden/python/recording.h describes the file, tests/golden/python/regenerate
 * calls this for each version.
 *
 * Usage: capture FILE INTERPRETER
 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <pwd.h>
#include <stdarg.h>
#include <sys/ptrace.h>

#include "tests/golden/python/recording.h"
#include "tests/golden/referee.h"
#include "tests/unit/python_look.h"
#include "tests/unit/python_memory.h"
#include "tests/unit/python_target.h"
#include "tests/unit/python_walk.h"

#define SETTLE_US   200000 /* from the last line to the sleep that follows it */
#define MAX_PYTHON  512
#define PROGRAM     "exec(compile(open('nested.py', encoding='utf-8').read(), 'nested.py', 'exec'))"
#define NO_FUNCTION "?"

static struct python_target target = PYTHON_TARGET_NONE;

/* Its stopped threads are to be waited for before it. */
static void stop_target(void)
{
	if (target.pid <= 0)
		return;
	kill(target.pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
		;
	target.pid = 0;
	python_target__stop(&target);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("capture: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	stop_target();
	exit(1);
}

/* What the interpreter says. */

struct told {
	struct recording_thread thread;
	struct recording_frame frames[MAX_PYTHON];
	size_t n, used;
};

static struct told told[RECORDING_MAX_THREADS];
static size_t n_told;

static void read_told_frame(struct told *t, const char *text)
{
	struct recording_frame *f = &t->frames[t->n];
	char offset[16], mark[8];

	*f = (struct recording_frame){ .kind = RECORDING_PYTHON };
	if (sscanf(text, "frame\t%127[^\t]\t%127[^\t]\t%d\t%15[^\t]\t%7s", f->name, f->file, &f->line, offset, mark) !=
	    5)
		die("not a frame: %s", text);
	f->offset = offset[0] == '-' ? RECORDING_NO_OFFSET : atoi(offset);
	f->entry = !strcmp(mark, "entry");
	t->n++;
}

static void read_told(void)
{
	char line[4096], lock[16];

	for (;;) {
		if (!python_target__line(&target, line, sizeof(line)))
			die("the interpreter says nothing");
		if (!strcmp(line, "end"))
			return;
		if (!strncmp(line, "thread\t", 7)) {
			struct recording_thread *t = &told[n_told].thread;

			if (n_told == RECORDING_MAX_THREADS || sscanf(line, "thread\t%" SCNu64 "\t%" SCNu64 "\t%15s",
								      &t->descriptor, &t->native_id, lock) != 3)
				die("not a thread: %s", line);
			t->held = !strcmp(lock, "held");
			n_told++;
		} else if (n_told && told[n_told - 1].n < MAX_PYTHON) {
			read_told_frame(&told[n_told - 1], line);
		} else {
			die("unexpected: %s", line);
		}
	}
}

/* Native frames, and the Python ones among them. */

struct weaving {
	const struct python_found *found;
	struct told *told;
	struct recording_thread *out;
};

static void add(struct weaving *w, const struct recording_frame *frame)
{
	if (recording__add_frame(w->out, frame))
		die("out of memory");
}

static bool in_loop(const struct python_found *found, uint64_t pc)
{
	for (unsigned i = 0; i < found->image.n_loops; i++) {
		if (pc - found->bias >= found->image.loops[i].low && pc - found->bias < found->image.loops[i].high)
			return true;
	}
	return false;
}

static void weave_frame(struct weaving *w, Dwfl *dwfl, const struct referee_frame *native)
{
	struct recording_frame frame = { .offset = RECORDING_NO_OFFSET };
	uint64_t pc = native->pc - (!native->exact && !native->signal);
	Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
	const char *name = module ? dwfl_module_addrname(module, pc) : NULL;

	snprintf(frame.name, sizeof(frame.name), "%s", name ? name : NO_FUNCTION);
	frame.kind = in_loop(w->found, pc) ? RECORDING_LOOP : RECORDING_NATIVE;
	add(w, &frame);
	if (frame.kind != RECORDING_LOOP)
		return;
	do {
		if (w->told->used == w->told->n)
			die("more calls of the loop than the interpreter tells of");
		add(w, &w->told->frames[w->told->used]);
	} while (!w->told->frames[w->told->used++].entry);
}

static bool read_word(void *context, uint64_t address, uint64_t *word)
{
	return python_memory__read(&target.pid, address, word, sizeof(*word));
}

/* The thread stays stopped until the process is killed. */
static void stop_thread(pid_t tid, uint64_t regs[TRACEE_REGS])
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ||
	    waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status) || tracee__regs(tid, regs))
		die("thread %d cannot be stopped: %s", tid, strerror(errno));
}

static void weave(const struct python_found *found, struct recording *r)
{
	_cleanup_(referee) struct referee *referee = referee__new(target.pid);
	static struct referee_frame frames[REFEREE_MAX_FRAMES];
	uint64_t regs[TRACEE_REGS];

	if (!referee)
		die("no modules: %s", dwfl_errmsg(-1));
	for (size_t i = 0; i < n_told; i++) {
		struct weaving w = { found, &told[i], &r->threads[i] };
		size_t n;
		int ret;

		*w.out = told[i].thread;
		stop_thread((pid_t)told[i].thread.native_id, regs);
		ret = referee__frames(referee, regs, read_word, NULL, frames, &n);
		if (ret)
			die("thread %zu: its native stack: %s", i, strerror(-ret));
		for (size_t k = 0; k < n; k++)
			weave_frame(&w, referee__dwfl(referee), &frames[k]);
		if (told[i].used != told[i].n)
			die("thread %zu: fewer calls of the loop than the interpreter tells of", i);
	}
	r->n_threads = n_told;
}

/* Memory. */

static bool read_and_record(void *context, uint64_t address, void *to, size_t bytes)
{
	if (!python_memory__read(&target.pid, address, to, bytes))
		return false;
	if (recording__add_memory(context, address, to, bytes))
		die("out of memory");
	return true;
}

static void record_memory(const struct python_found *found, struct recording *r)
{
	const struct foreign_memory memory = { read_and_record, r };
	static struct python_look look;
	struct so_error err = { "" };
	int ret = python_look(&memory, r->runtime, r->version, r->own, &look, &err);

	if (ret)
		die("%s: %s", strerror(-ret), err.text);
	/* The walker of the unit tests reads a little more. */
	for (size_t i = 0; i < look.n_threads; i++) {
		struct python_walked frames[PYTHON_WALK_MAX];

		python_walk__frames(&memory, &look.process.layout, &look.process.walker, look.threads[i].thread.state,
				    frames);
	}
	ret = recording__join(r);
	if (ret)
		die("the interpreter did not stand still: %s", strerror(-ret));
}

static void expect_without(const struct recording *r, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	for (size_t i = 0; n > 1 && i < r->n_pieces; i++) {
		if (memmem(r->pieces[i].bytes, r->pieces[i].n, text, n))
			die("\"%s\" is in what would be kept", text);
	}
}

/* Nothing of the machine may be in a file that others get: what is read are names of code and files, and numbers. */
static void check_nothing_private(const struct recording *r, const char *interpreter)
{
	_cleanup_free_ char *path = realpath(interpreter, NULL), *folder = getcwd(NULL, 0);
	const struct passwd *user = getpwuid(getuid());
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	expect_without(r, host);
	expect_without(r, path ? dirname(path) : interpreter);
	expect_without(r, folder);
	expect_without(r, user ? user->pw_dir : NULL);
	expect_without(r, "=/");
}

static size_t count_bytes(const struct recording *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_pieces; i++)
		n += r->pieces[i].n;
	return n;
}

int main(int argc, char **argv)
{
	__attribute__((cleanup(cleanup__recording))) struct recording r = { 0 };
	static struct python_found found;
	char *command[] = { argc == 3 ? argv[2] : NULL,
			    (char *)"-I",
			    (char *)"-S",
			    (char *)"-B",
			    (char *)"-c",
			    (char *)PROGRAM,
			    NULL };
	int ret;

	if (argc != 3) {
		fputs("usage: capture FILE INTERPRETER\n", stderr);
		return 2;
	}
	/*
	 * For callbacks libffi maps a page of its code again, next to itself where it was loaded last, and then libdwfl
	 * takes both for one module that begins at the first. So it is loaded before everything else.
	 */
	setenv("LD_PRELOAD", "libffi.so.8", 1);
	ret = python_target__run(command, &target);
	if (ret)
		die("%s: %s", argv[2], strerror(-ret));
	read_told();
	usleep(SETTLE_US);
	ret = python_memory__find(target.pid, &found);
	if (ret)
		die("no interpreter: %s %s", strerror(-ret), found.err.text);
	r.runtime = found.image.runtime + found.bias;
	r.version = found.image.version;
	r.own = found.image.locals.kind == PYTHON_LOCALS_OF_THREAD ? found.image.locals.own : 0;
	record_memory(&found, &r);
	check_nothing_private(&r, argv[2]);
	weave(&found, &r);
	ret = recording__write(&r, argv[1]);
	if (ret)
		die("%s: %s", argv[1], strerror(-ret));
	printf("%s: %zu threads, %zu bytes of memory in %zu pieces\n", argv[1], r.n_threads, count_bytes(&r),
	       r.n_pieces);
	stop_target();
	return 0;
}
