// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/python_calls.h"

/* From here on a thread's storage leads to the interpreter that it is in. */
#define STORAGE_HAS_INNERMOST 0x030c

/* By then a call of the loop has linked its frame in: 104 bytes in 3.11, 140 in 3.10. */
#define PROLOGUE_BYTES 256

static bool is_loop(const struct python_image *image, uint64_t vaddr)
{
	for (unsigned i = 0; i < image->n_loops; i++) {
		if (vaddr >= image->loops[i].low && vaddr < image->loops[i].high)
			return true;
	}
	return false;
}

static bool is_prologue(const struct python_image *image, uint64_t vaddr)
{
	for (unsigned i = 0; i < image->n_loops; i++) {
		if (vaddr - image->loops[i].low < PROLOGUE_BYTES)
			return true;
	}
	return false;
}

static void describe_native(struct file_registry *files, const struct stack *stack, struct python_calls *out)
{
	struct merge_input *in = &out->in;

	for (size_t i = 0; i < in->n_native; i++) {
		const struct file_entry *file = file_registry__get(files, SO_FRAME_FILE(stack->frames[i]));

		out->loops[i] = file && file->python && is_loop(file->python, SO_FRAME_ADDR(stack->frames[i]));
		/* The record of a call that begins may be linked in before the frame is. */
		if (i == 0 && out->loops[0] && is_prologue(file->python, SO_FRAME_ADDR(stack->frames[0])))
			in->call_at = 0;
		if (!file || !file->python || in->interpreter != in->n_native)
			continue;
		in->interpreter = i;
		in->loop_known = python_image__has_whole_loop(file->python);
		in->innermost_known |= file->python->version >> 16 >= STORAGE_HAS_INNERMOST;
	}
}

void python_calls__describe(struct file_registry *files, struct stack *stack, struct python_calls *out)
{
	const struct so_stack_record *r = &stack->record;
	const struct python_frame *python = stack__python(stack);
	bool has_lock = r->flags & (SO_STACK_GIL | SO_STACK_NO_GIL);
	struct merge_input *in = &out->in;

	*in = (struct merge_input){
		.loops = out->loops,
		.n_native = r->n_user < SO_MAX_USER_FRAMES ? r->n_user : SO_MAX_USER_FRAMES,
		.entries = out->entries,
		.n_python = r->n_python < SO_MAX_PYTHON_FRAMES ? r->n_python : SO_MAX_PYTHON_FRAMES,
		.native_cut = r->cause != SO_TRUNC_NONE,
		.python_cut = r->python != SO_PYTHON_STATE_NONE && r->python != SO_PYTHON_STATE_COMPLETE &&
			      r->python != SO_PYTHON_STATE_MISSING,
		.has_lock = has_lock,
		.innermost_known = has_lock,
		.within = r->flags & SO_STACK_SUBINTERPRETER,
		.call_at = r->call_at,
		.empty_calls = r->empty_calls,
	};
	in->interpreter = in->n_native;
	describe_native(files, stack, out);
	for (size_t i = 0; i < in->n_python; i++)
		out->entries[i] = python[i].entry != 0;
	out->entries[in->n_python] = 1;
}

bool python_calls__are_missing(struct file_registry *files, struct stack *stack)
{
	struct python_calls calls;

	if (!(stack->record.flags & SO_STACK_PYTHON_KNOWN))
		return false;
	python_calls__describe(files, stack, &calls);
	return python_merge__missing(&calls.in) > 0;
}
