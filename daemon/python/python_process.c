// SPDX-License-Identifier: GPL-2.0-or-later
/* A running process may change a list under the walk: one contradiction proves nothing, and it is read again. */
#include "daemon/python/python_process.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/python/python_debug_offsets.h"
#include "daemon/python/python_storage.h"

#define MAX_INTERPRETERS 1024u
#define MAX_SOME         128u /* threads that are looked at to find out about the process */
#define MAX_FRAMES       64u  /* of one of them */
#define MAX_INTERVAL_US  (1ull << 40)
#define ATTEMPTS         20
#define OPEN_ATTEMPTS    5

/* Where objects and structures can be: above the pages that are never mapped, below the kernel, at multiples of 8. */
static bool is_pointer(uint64_t address)
{
	return address >= 0x1000 && address < 1ull << 47 && address % 8 == 0;
}

static bool read_u64(const struct foreign_memory *memory, uint64_t address, uint64_t *out)
{
	return foreign_memory__read(memory, address, out, sizeof(*out));
}

static bool read_thread(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t state,
			struct python_thread *out)
{
	struct python_thread thread = { .state = state };

	if (!read_u64(memory, state + layout->walker.thread_id, &thread.thread_id) ||
	    !read_u64(memory, state + layout->walker.interp, &thread.interpreter) ||
	    (layout->thread_native_id && !read_u64(memory, state + layout->thread_native_id, &thread.native_id)))
		return false;
	*out = thread;
	return true;
}

/* The thread states of one interpreter. Each points back to it and to the one before, so the list has no circles. */
static int walk_threads(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t interpreter,
			struct python_thread *out, unsigned room, unsigned *n)
{
	uint64_t state, before = 0, prev;

	if (!read_u64(memory, interpreter + layout->interp_threads_head, &state))
		return -EFAULT;
	while (state && *n < room) {
		if (!is_pointer(state) || !read_thread(memory, layout, state, &out[*n]) ||
		    out[*n].interpreter != interpreter || !read_u64(memory, state + layout->thread_prev, &prev) ||
		    prev != before)
			return -EFAULT;
		(*n)++;
		before = state;
		if (!read_u64(memory, state + layout->thread_next, &state))
			return -EFAULT;
	}
	return 0;
}

/* Returns how many there are in *n also when the lists are broken, up to where they are. */
static int walk_once(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t runtime,
		     struct python_thread *out, unsigned room, unsigned *n)
{
	uint64_t interpreter, mark = 0;

	*n = 0;
	if (!read_u64(memory, runtime + layout->runtime_interpreters_head, &interpreter))
		return -EFAULT;
	for (unsigned i = 0; interpreter && *n < room; i++) {
		if (i == MAX_INTERPRETERS || !is_pointer(interpreter) || interpreter == mark ||
		    walk_threads(memory, layout, interpreter, out, room, n) < 0)
			return -EFAULT;
		/* One of a circle is met again, the next power of two after its length at the latest. */
		if (!(i & (i + 1)))
			mark = interpreter;
		if (!read_u64(memory, interpreter + layout->interp_next, &interpreter))
			return -EFAULT;
	}
	return 0;
}

static int walk(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t runtime,
		struct python_thread *out, unsigned room, unsigned *n)
{
	int ret = -EFAULT;

	for (int i = 0; i < ATTEMPTS && ret < 0; i++)
		ret = walk_once(memory, layout, runtime, out, room, n);
	return ret;
}

int python_process__threads(const struct foreign_memory *memory, const struct python_process *process,
			    struct python_thread *out, unsigned room)
{
	unsigned n;
	int ret = walk(memory, &process->layout, process->runtime, out, room, &n);

	return ret < 0 ? ret : (int)n;
}

static int starting(struct so_error *err)
{
	return so_err(err, -EAGAIN, "the Python interpreter is starting");
}

static int find_layout(const struct foreign_memory *memory, const struct python_image *image, uint64_t runtime,
		       struct python_layout *out, struct so_error *err)
{
	uint16_t version = (uint16_t)(image->version >> 16);
	const struct python_layout *compiled_in;
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES];
	struct python_layout described;
	int ret = python_layout__check_version(image->version, err);

	if (ret < 0)
		return ret;
	compiled_in = python_layout__of_version(version);
	if (compiled_in) {
		*out = *compiled_in;
		return 0;
	}
	/* The file has them, so the loader has not got there yet. */
	if (!foreign_memory__read(memory, runtime, bytes, sizeof(bytes)) ||
	    !python_debug_offsets__version(bytes, sizeof(bytes)))
		return starting(err);
	ret = python_debug_offsets__read(bytes, sizeof(bytes), &described, err);
	if (ret < 0)
		return ret;
	if (described.version != version)
		return so_err(err, -EINVAL, "CPython's file is of version 3.%u, its memory says 3.%u", version & 0xff,
			      described.version & 0xff);
	*out = described;
	return 0;
}

/* Moves those to the front whose thread is there: its id points to its own address (%fs:0, x86-64 psABI, TLS). */
static unsigned keep_threads(const struct foreign_memory *memory, struct python_thread *threads, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t self;

		if (is_pointer(threads[i].thread_id) && read_u64(memory, threads[i].thread_id, &self) &&
		    self == threads[i].thread_id)
			threads[kept++] = threads[i];
	}
	return kept;
}

static bool any_thread(const struct python_thread *threads, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (threads[i].thread_id)
			return true;
	}
	return false;
}

/* Whether a thread has several thread states. */
static bool any_twice(const struct python_thread *threads, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (threads[k].thread_id == threads[i].thread_id)
				return true;
		}
	}
	return false;
}

/* By the name of its type. */
static bool is_code(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t object)
{
	uint64_t type, name;
	char text[5];

	return is_pointer(object) && read_u64(memory, object + layout->object_type, &type) && is_pointer(type) &&
	       read_u64(memory, type + layout->type_name, &name) &&
	       foreign_memory__read(memory, name, text, sizeof(text)) && !memcmp(text, "code", sizeof(text));
}

enum frames { NO_FRAMES, GOOD_FRAMES, BAD_FRAMES };

static enum frames look_from(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t frame)
{
	const struct so_python *walker = &layout->walker;
	uint64_t code;
	uint8_t owner;

	for (unsigned i = 0; frame && i < MAX_FRAMES; i++) {
		if (!is_pointer(frame) || !read_u64(memory, frame + walker->frame_code, &code) ||
		    !foreign_memory__read(memory, frame + walker->frame_entry, &owner, sizeof(owner)))
			return BAD_FRAMES;
		if (walker->entry != SO_PYTHON_ENTRY_SHIM || owner < walker->entry_owner) {
			if (walker->flags & SO_PYTHON_TAGGED)
				code &= ~3ull;
			return is_code(memory, layout, code) ? GOOD_FRAMES : BAD_FRAMES;
		}
		if (!read_u64(memory, frame + walker->frame_back, &frame))
			return BAD_FRAMES;
	}
	return frame ? BAD_FRAMES : NO_FRAMES;
}

/*
 * Whether a thread's frames are where the layout has them: the first one that is reached has a code object. A thread
 * that has lost its CPU between two stores stays there for all attempts: then the cframe before has the frame, as in
 * the walker (py_failed()).
 */
static enum frames look_at_frames(const struct foreign_memory *memory, const struct python_layout *layout,
				  uint64_t state)
{
	const struct so_python *walker = &layout->walker;
	uint64_t frame, cframe;
	enum frames found;

	if (!read_u64(memory, state + walker->frame, &frame))
		return BAD_FRAMES;
	if (!(walker->flags & SO_PYTHON_CFRAME))
		return look_from(memory, layout, frame);
	cframe = frame;
	if (!read_u64(memory, cframe + walker->cframe_frame, &frame))
		return BAD_FRAMES;
	found = look_from(memory, layout, frame);
	if (found != BAD_FRAMES || !read_u64(memory, cframe + walker->cframe_frame + 8, &cframe) ||
	    !read_u64(memory, cframe + walker->cframe_frame, &frame))
		return found;
	return look_from(memory, layout, frame);
}

/* One good one is enough: the others may be in the middle of a call. */
static int check_frames(const struct foreign_memory *memory, const struct python_layout *layout,
			const struct python_thread *threads, unsigned n, struct so_error *err)
{
	bool bad = false;

	for (int i = 0; i < ATTEMPTS; i++) {
		for (unsigned k = 0; k < n; k++) {
			enum frames frames = look_at_frames(memory, layout, threads[k].state);

			if (frames == GOOD_FRAMES)
				return 0;
			bad |= frames == BAD_FRAMES;
		}
	}
	return bad ? so_err(err, -EINVAL, "CPython 3.%u: its frames are not where they should be",
			    layout->version & 0xff)
		   : 0;
}

/* struct _gil_runtime_state: before the holder, the switch interval in µs. `locked` is -1 before the lock is made. */
static bool is_gil(const struct foreign_memory *memory, const struct so_python *walker, uint64_t address)
{
	uint64_t interval, holder;
	int32_t locked;

	return is_pointer(address) && read_u64(memory, address + walker->gil_holder - 8, &interval) && interval > 0 &&
	       interval <= MAX_INTERVAL_US && read_u64(memory, address + walker->gil_holder, &holder) &&
	       (!holder || is_pointer(holder)) &&
	       foreign_memory__read(memory, address + walker->gil_locked, &locked, sizeof(locked)) &&
	       (locked == 0 || locked == 1);
}

static int check_gil(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t runtime,
		     uint64_t interpreter, struct so_python_place *place, struct so_error *err)
{
	uint64_t address = runtime + layout->runtime_gil;

	if (!layout->runtime_gil && !read_u64(memory, interpreter + layout->walker.interp_gil, &address))
		address = 0;
	if (!is_gil(memory, &layout->walker, address))
		return so_err(err, -EINVAL, "CPython 3.%u: its lock (GIL) is not where it should be",
			      layout->version & 0xff);
	if (layout->runtime_gil)
		place->gil = address;
	place->main_interpreter = interpreter;
	return 0;
}

/*
 * Where thread states are listed, for the walker. Versions that have it further away than it can say are not searched.
 */
static void tell_lists(struct python_process *process)
{
	const struct python_layout *layout = &process->layout;

	process->place.interpreters = process->runtime + layout->runtime_interpreters_head;
	if (layout->interp_threads_head > UINT16_MAX || layout->interp_next > UINT16_MAX)
		return;
	process->walker.interp_threads = (uint16_t)layout->interp_threads_head;
	process->walker.interp_next = (uint16_t)layout->interp_next;
	process->walker.thread_next = layout->thread_next;
}

/* All that can be found out from the thread states. */
static int find_rest(const struct foreign_memory *memory, const struct python_thread_locals *locals,
		     struct python_process *process, struct so_error *err)
{
	const struct python_layout *layout = &process->layout;
	struct python_thread threads[MAX_SOME];
	unsigned n, kept;
	/* Lists that change all the time are never seen whole; a part of them tells as much. */
	bool broken = walk(memory, layout, process->runtime, threads, MAX_SOME, &n) < 0;
	int ret;

	kept = keep_threads(memory, threads, n);
	if (!kept && broken)
		return so_err(err, -EINVAL, "CPython 3.%u: its list of threads is damaged", layout->version & 0xff);
	if (!kept && any_thread(threads, n))
		return so_err(err, -EINVAL, "CPython 3.%u: the ids in its list of threads are none",
			      layout->version & 0xff);
	if (!kept)
		return starting(err);
	process->place.several = any_twice(threads, kept);
	/* The main interpreter is the oldest, and the oldest are last. */
	ret = check_gil(memory, layout, process->runtime, threads[kept - 1].interpreter, &process->place, err);
	ret = ret
		      ?: python_storage__find(memory, layout, process->runtime, locals, threads, kept,
					      &process->place, err);
	return ret < 0 ? ret : check_frames(memory, layout, threads, kept, err);
}

int python_process__open(const struct foreign_memory *memory, const struct python_image *image, uint64_t bias,
			 struct python_process *out, struct so_error *err)
{
	struct python_process process = { .runtime = image->runtime + bias };
	int32_t initialized;
	uint64_t first;
	int ret;

	/* Its data may lie behind the file's end, where the loader has put nothing yet. */
	if (!read_u64(memory, process.runtime, &first))
		return so_err(err, -EAGAIN, "the Python interpreter's memory cannot be read");
	ret = find_layout(memory, image, process.runtime, &process.layout, err);
	if (ret < 0)
		return ret;
	process.walker = process.layout.walker;
	tell_lists(&process);
	ret = find_rest(memory, &image->locals, &process, err);
	/* Until the interpreter has started, a contradiction may come from its being half made or half loaded. */
	if (ret < 0 && (!foreign_memory__read(memory, process.runtime + process.layout.runtime_initialized,
					      &initialized, sizeof(initialized)) ||
			initialized != 1))
		return starting(err);
	if (ret == 0)
		*out = process;
	return ret;
}

int python_process__open_running(const struct foreign_memory *memory, const struct python_image *image, uint64_t bias,
				 struct python_process *out, struct so_error *err)
{
	struct so_error why;
	int ret = -EINVAL;

	for (int i = 0; i < OPEN_ATTEMPTS && ret != 0 && ret != -EAGAIN; i++) {
		why = (struct so_error){ "" };
		ret = python_process__open(memory, image, bias, out, &why);
	}
	return ret ? so_err(err, ret, "%s", why.text) : 0;
}
