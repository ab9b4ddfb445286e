// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A thread of the module threading runs Thread._bootstrap() below all else, whose first local variable is the Thread
 * object, since 3.8 at least. Its attribute _name is what the program calls it.
 */
#include "daemon/python/python_thread.h"

#include <errno.h>
#include <string.h>

#include "daemon/python/python_attributes.h"
#include "daemon/python/python_object.h"
#include "daemon/python/python_str.h"
#include "stakeout/cleanup.h"
#include "stakeout/utf8.h"

/* A frame of Python's, and at most one more for each call of the interpreter's loop. */
#define MAX_STEPS (2 * SO_MAX_PYTHON_FRAMES)

static bool first_frame(const struct foreign_memory *memory, const struct python_process *process, uint64_t fsbase,
			uint64_t *frame)
{
	const struct so_python *walker = &process->walker;
	uint64_t state = python_process__thread(memory, process, fsbase);

	if (!state)
		return false;
	*frame = foreign_memory__u64(memory, state + walker->frame);
	if (*frame && walker->flags & SO_PYTHON_CFRAME)
		*frame = foreign_memory__u64(memory, *frame + walker->cframe_frame);
	return *frame != 0;
}

/* The outermost one that is Python's. False: there is none, or they change under the walk. */
static bool last_frame(const struct foreign_memory *memory, const struct so_python *walker, uint64_t frame,
		       struct python_object *last, uint64_t *address)
{
	struct python_object object;

	*address = 0;
	for (unsigned i = 0; frame; i++) {
		if (i == MAX_STEPS || !python_object__read(memory, frame, walker->frame_bytes, &object))
			return false;
		if (walker->entry != SO_PYTHON_ENTRY_SHIM || object.bytes[walker->frame_entry] < walker->entry_owner) {
			*last = object;
			*address = frame;
		}
		frame = python_object__u64(&object, walker->frame_back);
	}
	return *address;
}

static uint64_t untagged(const struct so_python *walker, uint64_t reference)
{
	return walker->flags & SO_PYTHON_TAGGED ? reference & ~3ull : reference;
}

static bool is_bootstrap(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t code)
{
	_cleanup_free_ char *name = NULL;

	return !python_str__read(memory, layout, foreign_memory__u64(memory, code + layout->code.name), &name) &&
	       !strcmp(name, "_bootstrap");
}

static void cut(const char *text, char name[PYTHON_THREAD_NAME_BYTES])
{
	size_t n = 0, step;

	while (text[n] && (step = utf8__sequence(text + n, strlen(text + n))) && n + step < PYTHON_THREAD_NAME_BYTES)
		n += step;
	memcpy(name, text, n);
	name[n] = '\0';
}

int python_thread__name(const struct foreign_memory *memory, const struct python_process *process, uint64_t fsbase,
			char name[PYTHON_THREAD_NAME_BYTES])
{
	const struct python_layout *layout = &process->layout;
	_cleanup_free_ char *text = NULL;
	struct python_object last;
	uint64_t frame, thread, attribute;
	int ret;

	name[0] = '\0';
	if (!layout->frame_locals || !first_frame(memory, process, fsbase, &frame))
		return -ENOENT;
	if (!last_frame(memory, &process->walker, frame, &last, &frame))
		return -EFAULT;
	if (!is_bootstrap(memory, layout,
			  untagged(&process->walker, python_object__u64(&last, process->walker.frame_code))))
		return -ENOENT;
	thread = untagged(&process->walker, foreign_memory__u64(memory, frame + layout->frame_locals));
	ret = python_attributes__find(memory, layout, thread, "_name", &attribute);
	ret = ret ?: python_str__read(memory, layout, attribute, &text);
	if (!ret)
		cut(text, name);
	return ret;
}
