// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/learner/learn.h"

#include <errno.h>
#include <string.h>

#include "daemon/os/memory_lock.h"

/* `mov $15, %rax; syscall` and `mov $15, %eax; syscall`: a signal trampoline of a C library or runtime without
 * unwind information for it. */
static const uint8_t sigreturn_rax[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
static const uint8_t sigreturn_eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };

/* Code of one function is not further from any of its instructions than this. */
#define LEARN_REACH_BYTES (1u << 20)

/* Code of a file is read from the file: what is learned serves every process that maps it. */
struct code_reader {
	struct file_registry *files;
	uint32_t file; /* 0: a process's anonymous memory */
	pid_t tgid;
	uint64_t bias; /* process address minus the table's */
};

/* An effect_read_fn. */
static size_t read_code(void *context, uint64_t address, void *buf, size_t size)
{
	const struct code_reader *r = context;

	if (r->file)
		return file_registry__read_code(r->files, r->file, address, buf, size);
	return memory_lock__read(r->tgid, address + r->bias, buf, size);
}

static bool is_sigreturn(struct code_reader *r, uint64_t address)
{
	uint8_t code[sizeof(sigreturn_rax)] = { 0 };

	read_code(r, address, code, sizeof(code));
	return !memcmp(code, sigreturn_rax, sizeof(sigreturn_rax)) ||
	       !memcmp(code, sigreturn_eax, sizeof(sigreturn_eax));
}

/* Code that is entered by a return to its first byte is looked up one byte before that. */
static int learn_kind(struct learned_code *code, uint64_t address, enum so_cfa_kind kind, uint32_t length)
{
	struct effect_row row = { .address = address, .length = length, .rule = { .cfa_kind = (uint8_t)kind } };
	struct effect_rows rows = { .rows = &row, .n = 1 };

	return learned_code__add(code, &rows);
}

/* What may belong to the function at hand. Table's addresses, as everywhere below. */
struct limits {
	uint64_t low, high;
};

/* address: as looked up, that is the interrupted instruction's (exact), or a return address minus one. */
static int learn(struct learner *l, struct learned_code *code, struct code_reader *r, uint64_t address, bool exact,
		 struct limits limits)
{
	struct effect_rows rows = { 0 };
	uint8_t byte;
	int ret;

	/* A process that is gone says nothing about its code. */
	if (!read_code(r, address, &byte, 1))
		return -ESRCH;
	if (!l->effects && effect_reader__new(&l->effects))
		return -ENOMEM;
	l->attempts++;
	if (is_sigreturn(r, exact ? address : address + 1))
		return learn_kind(code, address, SO_CFA_SIGNAL, 2);
	/* Generated code is entered by jumps and computed returns too, and has traps behind these. */
	if (!exact && r->file && stack_effect__is_begin(l->effects, read_code, r, address + 1))
		return learn_kind(code, address, SO_CFA_END, 1);
	if (exact)
		ret = stack_effect__follow(l->effects, read_code, r, address, limits.low, limits.high, &rows);
	else
		ret = stack_effect__follow_return(l->effects, read_code, r, address + 1, limits.low, limits.high,
						  &rows);
	if (!ret) {
		ret = learned_code__add(code, &rows);
		effect_rows__release(&rows);
	} else if (ret != -ENOMEM) {
		ret = learned_code__add_failure(code, address);
	}
	return ret;
}

const struct so_unwind_rule *learner__rule(struct learner *l, struct process *p, const struct so_mapping *m,
					   uint64_t address, bool exact)
{
	uint64_t vaddr = address - m->bias;
	struct code_reader r = { l->files, m->file, p->tgid, m->bias };
	const struct so_unwind_rule *rule;
	struct learned_mapping *learned;
	struct learned_code *code = NULL;
	struct limits limits = { 0 };

	if (m->file) {
		code = file_registry__learned(l->files, m->file);
		if (file_registry__gap(l->files, m->file, vaddr, LEARN_REACH_BYTES, &limits.low, &limits.high))
			return NULL;
	} else {
		learned = process__learned(p, m->bias, m->end);
		code = learned ? &learned->code : NULL;
		limits.high = learned ? learned->end - learned->start : 0;
	}
	if (!code)
		return NULL;
	rule = learned_code__find(code, vaddr);
	if (!rule && !learn(l, code, &r, vaddr, exact, limits))
		rule = learned_code__find(code, vaddr);
	/* The kernel did not have this rule, whether it is new or this process's mappings were made before it was. */
	if (rule)
		learn_notes__add(l->notes, p->tgid, m->file, m->bias);
	if (m->file)
		learn_ahead__plan(l->ahead, p->tgid, m->file, vaddr);
	return rule;
}
