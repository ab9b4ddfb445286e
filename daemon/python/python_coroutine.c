// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_coroutine.h"

#include <errno.h>
#include <string.h>

#define TAG_BITS  3ull
#define MAX_STACK (1u << 20) /* bytes; of a frame */
/* Of a running task's thread: those of functions that its coroutines call, and what stands between them. */
#define MAX_STEPS 512

bool python_coroutine__read_object(struct python_task_reader *r, uint64_t address, size_t bytes,
				   struct python_object *object)
{
	size_t from = r->process->layout.object_type;

	if (!address || address % sizeof(void *) || address >= PYTHON_MAX_USER_ADDRESS || bytes <= from ||
	    bytes > sizeof(object->bytes))
		return false;
	object->size = bytes;
	memset(object->bytes, 0, from);
	return foreign_memory__read(&r->memory, address + from, object->bytes + from, bytes - from);
}

bool python_coroutine__type(struct python_task_reader *r, uint64_t object, uint64_t *type)
{
	return object && object % 8 == 0 &&
	       foreign_memory__read(&r->memory, object + r->process->layout.object_type, type, sizeof(*type));
}

static enum python_type_kind kind_of_name(const char *name)
{
	static const struct {
		const char *name;
		enum python_type_kind kind;
	} kinds[] = {
		{ "coroutine", PYTHON_TYPE_COROUTINE },
		{ "generator", PYTHON_TYPE_COROUTINE },
		{ "async_generator", PYTHON_TYPE_COROUTINE },
		{ "async_generator_asend", PYTHON_TYPE_WRAPPER },
		{ "async_generator_athrow", PYTHON_TYPE_WRAPPER },
		{ "anext_awaitable", PYTHON_TYPE_WRAPPER },
		{ "coroutine_wrapper", PYTHON_TYPE_WRAPPER },
		{ "str", PYTHON_TYPE_STR },
		{ "int", PYTHON_TYPE_INT },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(name, kinds[i].name))
			return kinds[i].kind;
	return PYTHON_TYPE_OTHER;
}

enum python_type_kind python_coroutine__kind(struct python_task_reader *r, uint64_t type)
{
	size_t at = type >> 4 & (PYTHON_TASK_TYPES - 1);
	char name[32] = "";
	uint64_t text;

	if (r->known[at].address == type && type)
		return r->known[at].kind;
	if (!type || type % 8 ||
	    !foreign_memory__read(&r->types, type + r->process->layout.type_name, &text, sizeof(text)) ||
	    !foreign_memory__read(&r->types, text, name, sizeof(name)))
		return PYTHON_TYPE_OTHER;
	name[sizeof(name) - 1] = '\0';
	r->known[at].address = type;
	r->known[at].kind = kind_of_name(name);
	return r->known[at].kind;
}

/* Where the frame's instructions begin: in the code object, or in the thread's own copy of them. 0: not known. */
static uint64_t first_instruction(struct python_task_reader *r, const uint8_t *frame, uint64_t code)
{
	const struct so_python *w = &r->process->walker;
	uint64_t copies, first;
	int32_t copy = 0;

	if (w->flags & SO_PYTHON_COPIES)
		memcpy(&copy, frame + w->frame_copy, sizeof(copy));
	if (copy <= 0)
		return code + w->code_first;
	if (!foreign_memory__read(&r->memory, code + w->code_copies, &copies, sizeof(copies)) ||
	    !foreign_memory__read(&r->memory, copies + 8 + 8 * (uint64_t)copy, &first, sizeof(first)))
		return 0;
	return first;
}

/* frame: its first walker.frame_bytes. */
static int add_frame(struct python_task_reader *r, const uint8_t *frame, struct python_task *out)
{
	const struct so_python *w = &r->process->walker;
	__u64 words[SO_PYTHON_SUM_WORDS];
	struct python_task_frame *f;
	uint64_t code, at, first;

	if (out->n_frames == PYTHON_TASK_FRAMES) {
		out->cut = true;
		return 0;
	}
	memcpy(&code, frame + w->frame_code, sizeof(code));
	memcpy(&at, frame + w->frame_instruction, sizeof(at));
	code &= ~TAG_BITS;
	if (code % 8 || !foreign_memory__read(&r->memory, code + w->code_sum, words, sizeof(words)))
		return -EAGAIN;
	f = &out->frames[out->n_frames++];
	f->code = code;
	f->sum = so_python_sum(words, w->sum_words);
	f->instruction = SO_PYTHON_NO_INSTRUCTION;
	first = first_instruction(r, frame, code);
	if (first && at >= first && (at - first) / 2 < SO_PYTHON_NO_INSTRUCTION)
		f->instruction = (uint32_t)((at - first) / 2);
	return 0;
}

/* Takes the frames of the thread down to the task's own, and turns them round. */
static int add_running(struct python_task_reader *r, uint64_t coroutine, uint64_t thread, struct python_task *out)
{
	const struct so_python *w = &r->process->walker;
	uint64_t frame, own = coroutine + r->asyncio->gen_frame;
	struct python_object object;

	if (!foreign_memory__read(&r->memory, thread + w->frame, &frame, sizeof(frame)))
		return -EFAULT;
	for (unsigned i = 0; i < MAX_STEPS && frame; i++) {
		if (frame % 8 || !foreign_memory__read(&r->memory, frame, object.bytes, w->frame_bytes))
			return -EAGAIN;
		if (object.bytes[w->frame_entry] < w->entry_owner && add_frame(r, object.bytes, out))
			return -EAGAIN;
		if (frame == own) {
			for (unsigned k = 0; k < out->n_frames / 2; k++) {
				struct python_task_frame other = out->frames[k];

				out->frames[k] = out->frames[out->n_frames - 1 - k];
				out->frames[out->n_frames - 1 - k] = other;
			}
			/* The outermost were left out: what remains leads nowhere. */
			out->n_frames = out->cut ? 0 : out->n_frames;
			return 0;
		}
		memcpy(&frame, object.bytes + w->frame_back, sizeof(frame));
	}
	return -EAGAIN;
}

/* What the coroutine awaits: on top of its frame's stack. */
static int find_awaited(struct python_task_reader *r, uint64_t coroutine, const struct python_object *object,
			uint64_t *awaited)
{
	const struct python_asyncio *a = r->asyncio;
	uint64_t stack = python_object__u64(object, a->gen_frame + (size_t)a->frame_stack);

	if (stack % 8 || stack <= coroutine + a->gen_frame || stack - coroutine > MAX_STACK)
		return -EAGAIN;
	if (!foreign_memory__read(&r->memory, stack - 8ull * a->delegate_slot, awaited, sizeof(*awaited)))
		return -EFAULT;
	*awaited &= ~TAG_BITS;
	return 0;
}

static size_t coroutine_bytes(const struct python_task_reader *r)
{
	size_t frame = r->process->walker.frame_bytes, stack = r->asyncio->frame_stack + 8u;

	return r->asyncio->gen_frame + (frame > stack ? frame : stack);
}

/*
 * One coroutine; *at becomes what it awaits, 0 at the end. Nobody but a thread that runs it may see one that executes,
 * or one that was awaited and has not begun or has ended.
 */
static int add_suspended(struct python_task_reader *r, uint64_t *at, struct python_task *out)
{
	uint64_t coroutine = *at;
	struct python_object object;
	bool first = !out->n_frames;
	int ret;

	*at = 0;
	/* A table that is damaged has it behind what is read. */
	if (r->asyncio->gen_state >= coroutine_bytes(r))
		return -EAGAIN;
	if (!python_coroutine__read_object(r, coroutine, coroutine_bytes(r), &object))
		return -EFAULT;
	switch (python_asyncio__frame_state(r->asyncio, object.bytes[r->asyncio->gen_state])) {
	case PYTHON_FRAME_CLEARED:
		out->state = PYTHON_TASK_ENDED;
		return first ? 0 : -EAGAIN;
	case PYTHON_FRAME_CREATED:
		out->state = PYTHON_TASK_CREATED;
		return first ? add_frame(r, object.bytes + r->asyncio->gen_frame, out) : -EAGAIN;
	case PYTHON_FRAME_SUSPENDED:
		out->state = PYTHON_TASK_READY;
		return add_frame(r, object.bytes + r->asyncio->gen_frame, out);
	case PYTHON_FRAME_DELEGATING:
		out->state = PYTHON_TASK_WAITING;
		ret = add_frame(r, object.bytes + r->asyncio->gen_frame, out);
		return ret ?: find_awaited(r, coroutine, &object, at);
	default:
		return -EAGAIN;
	}
}

/* Of an object that stands for another: the first field behind its header. */
static int pass_wrapper(struct python_task_reader *r, uint64_t *at)
{
	uint64_t inner;

	if (!foreign_memory__read(&r->memory, *at + python_layout__header(&r->process->layout), &inner, sizeof(inner)))
		return -EFAULT;
	*at = inner;
	return 0;
}

int python_coroutine__read(struct python_task_reader *r, uint64_t coroutine, uint64_t running, struct python_task *out)
{
	uint64_t at = coroutine, type;
	int ret = 0;

	if (running) {
		out->state = PYTHON_TASK_RUNNING;
		out->cut = r->hasty;
		return r->hasty ? 0 : add_running(r, coroutine, running, out);
	}
	for (unsigned steps = 0; !ret && at && !out->cut; steps++) {
		if (steps == 2 * PYTHON_TASK_FRAMES || !python_coroutine__type(r, at, &type))
			return -EAGAIN;
		switch (python_coroutine__kind(r, type)) {
		case PYTHON_TYPE_COROUTINE:
			ret = add_suspended(r, &at, out);
			break;
		case PYTHON_TYPE_WRAPPER:
			ret = pass_wrapper(r, &at);
			break;
		default:
			out->foreign = !out->n_frames;
			return 0;
		}
	}
	return ret;
}
