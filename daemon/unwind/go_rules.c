// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/go_rules.h"

#include <errno.h>
#include <string.h>

#include "daemon/unwind/stack_insn.h"

/* Functions that switch stacks are short, and few: the runtime has some fifteen. */
#define MAX_CODE_BYTES 2048
#define MAX_INSNS      512
#define MAX_DECODED    64

/* An assembly function with a frame has its caller's rbp there. */
#define FRAME_POINTER_TO_CFA 16

enum role {
	ROLE_PLAIN,   /* as its depths say */
	ROLE_END,     /* the outermost frame */
	ROLE_SIGNAL,  /* returns from a signal handler */
	ROLE_SWITCH,  /* goes to another stack, and back; see struct away */
	ROLE_FRAMED,  /* goes to another stack, with a frame that rbp leads back to */
	ROLE_NO_RULE, /* cannot be read */
};

/* The rule while a function runs on another stack; from the call there on, or at once. */
struct away {
	struct so_unwind_rule rule;
	bool from_call;
};

struct go_rules {
	const struct eh_frame *eh;
	struct go_functions functions;
	struct stack_decoder *decoder;
	uint64_t start, end;
	struct so_unwind_rule to_goroutine; /* of systemstack; cfa_kind SO_CFA_UNSUPPORTED: not known */
	uint8_t code[MAX_CODE_BYTES];
	struct stack_insn insns[MAX_INSNS];
	unsigned n_insns, n_decoded; /* n_decoded: functions */
};

static const struct so_unwind_rule end_rule = { .cfa_kind = SO_CFA_END };
static const struct so_unwind_rule signal_rule = { .cfa_kind = SO_CFA_SIGNAL };
static const struct so_unwind_rule unsupported = { .cfa_kind = SO_CFA_UNSUPPORTED };

/* The name of an assembly function may say its calling convention. */
static bool is_named(const struct go_rules *r, const struct go_function *f, const char *name)
{
	const char *own = go_functions__name(&r->functions, f);
	size_t length = strlen(name);

	return !strncmp(own, name, length) && (!own[length] || own[length] == '.');
}

/* Decodes a whole function; false when it is too long or not understood. */
static bool decode(struct go_rules *r, const struct go_function *f)
{
	size_t size = f->end - f->start, at = 0;

	r->n_insns = 0;
	if (r->n_decoded++ >= MAX_DECODED || size > sizeof(r->code) ||
	    eh_frame__read_code((void *)r->eh, f->start, r->code, size) < size)
		return false;
	while (at < size) {
		struct stack_insn *insn = &r->insns[r->n_insns];

		if (r->n_insns == MAX_INSNS ||
		    stack_decoder__decode(r->decoder, r->code + at, size - at, f->start + at, insn))
			return false;
		r->n_insns++;
		at += insn->length;
	}
	return true;
}

/* The stack pointer becomes what another register or memory holds. */
static bool sets_stack(const struct stack_insn *insn)
{
	return (insn->op == STACK_OP_LEA || insn->op == STACK_OP_LOAD) && insn->reg == SO_REG_RSP &&
	       insn->base != SO_REG_RSP;
}

static bool is_load(const struct stack_insn *insn, uint8_t base)
{
	return insn->op == STACK_OP_LOAD && insn->base == base;
}

static const uint8_t *bytes_of(const struct go_rules *r, const struct stack_insn *insn)
{
	return r->code + (insn->address - r->insns[0].address);
}

/* mov %fs:offset, %rax: the goroutine (g) that runs. */
static bool reads_g(const struct go_rules *r, const struct stack_insn *insn, int32_t *offset)
{
	static const uint8_t code[] = { 0x64, 0x48, 0x8b, 0x04, 0x25 };
	const uint8_t *bytes = bytes_of(r, insn);

	if (insn->length != sizeof(code) + sizeof(*offset) || memcmp(bytes, code, sizeof(code)))
		return false;
	memcpy(offset, bytes + sizeof(code), sizeof(*offset));
	return true;
}

static bool fits(int32_t offset)
{
	return offset >= 0 && offset <= INT16_MAX;
}

/* How systemstack finds its way back: g, g->m, m->curg, curg->sched.sp. */
static void read_way_back(struct go_rules *r)
{
	const struct stack_insn *in = r->insns, *m = NULL, *curg = NULL;
	bool found = false;
	int32_t tls = 0;

	r->to_goroutine = unsupported;
	for (unsigned i = 0; i < r->n_insns; i++) {
		if (reads_g(r, &in[i], &tls)) {
			m = curg = NULL;
			found = true;
		} else if (!found) {
			continue;
		} else if (!m) {
			m = is_load(&in[i], SO_REG_RAX) ? &in[i] : NULL;
		} else if (!curg) {
			curg = is_load(&in[i], m->reg) ? &in[i] : NULL;
		} else if (sets_stack(&in[i]) && is_load(&in[i], curg->reg) && fits(m->disp) && fits(curg->disp) &&
			   fits(in[i].disp)) {
			r->to_goroutine = (struct so_unwind_rule){ .cfa_kind = SO_CFA_GO_STACK,
								   .cfa_off = tls,
								   .rbp_off = (int16_t)m->disp,
								   .rbx_off = (int16_t)curg->disp,
								   .cfa_off2 = SO_GO_STACK(in[i].disp, 8) };
			return;
		}
	}
}

/* How asmcgocall does, behind its call: mov g(%rsp), a; mov hi(a), b; sub depth(%rsp), b; mov b, %rsp. */
static struct so_unwind_rule read_cgo_way_back(const struct go_rules *r)
{
	const struct stack_insn *in = r->insns;

	for (unsigned i = 0; i + 3 < r->n_insns; i++) {
		const uint8_t *sub = bytes_of(r, &in[i + 2]);

		if (is_load(&in[i], SO_REG_RSP) && is_load(&in[i + 1], in[i].reg) && fits(in[i].disp) &&
		    fits(in[i + 1].disp) && in[i + 2].length == 5 && sub[1] == 0x2b && (sub[2] & 0xc7) == 0x44 &&
		    sub[3] == 0x24 && sub[4] < 0x80)
			return (struct so_unwind_rule){ .cfa_kind = SO_CFA_GO_CGO,
							.cfa_off = in[i].disp,
							.rbp_off = (int16_t)in[i + 1].disp,
							.cfa_off2 = sub[4] };
	}
	return unsupported;
}

static struct so_unwind_rule rule_of_depth(uint32_t depth, bool compiled)
{
	struct so_unwind_rule rule = { .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = (int32_t)depth + 8 };

	if (!depth)
		return rule;
	rule.saves = SO_SAVES(compiled ? SO_SAVE_CFA : SO_SAVE_UNDEFINED, SO_SAVE_UNDEFINED);
	rule.rbp_off = compiled ? -FRAME_POINTER_TO_CFA : 0;
	return rule;
}

static int take_deepest(void *context, uint64_t start, uint32_t depth)
{
	uint32_t *deepest = context;

	if (depth > *deepest)
		*deepest = depth;
	return 0;
}

static bool is_signal_return(const struct go_rules *r, const struct go_function *f)
{
	return f->flags & GO_ASSEMBLY &&
	       (is_named(r, f, "runtime.sigreturn") || is_named(r, f, "runtime.sigreturn__sigaction"));
}

static enum role role_of(const struct go_rules *r, const struct go_function *f)
{
	uint32_t deepest = 0;

	if (f->flags & GO_TOP_FRAME)
		return ROLE_END;
	if (is_signal_return(r, f))
		return ROLE_SIGNAL;
	/* Its frame on the goroutine's stack is made to look as if the goroutine had called it. */
	if (!(f->flags & GO_WRITES_SP) || is_named(r, f, "runtime.cgocallback"))
		return ROLE_PLAIN;
	if (go_functions__depths(&r->functions, f, take_deepest, &deepest))
		return ROLE_NO_RULE;
	return deepest >= FRAME_POINTER_TO_CFA && !is_named(r, f, "runtime.asmcgocall") &&
			       !is_named(r, f, "runtime.mcall")
		       ? ROLE_FRAMED
		       : ROLE_SWITCH;
}

static struct away away_of(const struct go_rules *r, const struct go_function *f)
{
	struct away away = { unsupported, false };

	if (is_named(r, f, "runtime.mcall")) {
		away.rule = end_rule;
	} else if (is_named(r, f, "runtime.systemstack")) {
		away.rule = r->to_goroutine;
	} else if (is_named(r, f, "runtime.morestack")) {
		/* Of whoever needs more stack, where it has been left. */
		away.rule = r->to_goroutine;
		if (away.rule.cfa_kind == SO_CFA_GO_STACK)
			away.rule.cfa_off2 = SO_GO_STACK(SO_GO_STACK_SP(away.rule.cfa_off2), 0);
	} else if (is_named(r, f, "runtime.asmcgocall")) {
		away.rule = read_cgo_way_back(r);
		away.from_call = true;
	}
	return away;
}

struct rows {
	go_rule_fn row;
	void *context;
	bool compiled;
	uint32_t framed_from; /* the depth from which on rbp leads back; UINT32_MAX: none */
};

static int put_depth(void *context, uint64_t start, uint32_t depth)
{
	const struct rows *rows = context;
	struct so_unwind_rule rule = rule_of_depth(depth, rows->compiled);

	if (depth >= rows->framed_from)
		rule = (struct so_unwind_rule){ .cfa_kind = SO_CFA_GO_FRAME };
	return rows->row(rows->context, start, &rule);
}

/* A function without a frame that goes to another stack at one instruction and, behind a call, back at another. */
static int put_switch(struct go_rules *r, const struct go_function *f, const struct rows *rows)
{
	const struct so_unwind_rule home = rule_of_depth(0, false);
	struct away away;
	bool called = false, gone = false;
	int ret;

	if (!decode(r, f))
		return rows->row(rows->context, f->start, &unsupported);
	away = away_of(r, f);
	ret = rows->row(rows->context, f->start, &home);
	for (unsigned i = 0; i < r->n_insns && !ret; i++) {
		const struct stack_insn *insn = &r->insns[i];
		uint64_t behind = insn->address + insn->length;

		if (!gone && (sets_stack(insn) || insn->op == STACK_OP_REALIGN)) {
			gone = true;
			called = false;
			ret = rows->row(rows->context, behind, away.from_call ? &unsupported : &away.rule);
		} else if (gone && insn->flow == STACK_FLOW_CALL && !called) {
			called = true;
			ret = away.from_call ? rows->row(rows->context, insn->address, &away.rule) : 0;
		} else if (gone && called && sets_stack(insn)) {
			gone = false;
			ret = rows->row(rows->context, behind, &home);
		}
	}
	return ret;
}

int go_rules__each(struct go_rules *r, uint32_t i, go_rule_fn row, void *context)
{
	struct rows rows = { row, context, true, UINT32_MAX };
	struct go_function f;
	uint32_t deepest = 0;

	if (!go_functions__get(&r->functions, i, &f))
		return -EINVAL;
	rows.compiled = !(f.flags & GO_ASSEMBLY);
	switch (role_of(r, &f)) {
	case ROLE_END:
		return row(context, f.start, &end_rule);
	case ROLE_SIGNAL:
		return row(context, f.start - 1, &signal_rule);
	case ROLE_SWITCH:
		return put_switch(r, &f, &rows);
	case ROLE_FRAMED:
		go_functions__depths(&r->functions, &f, take_deepest, &deepest);
		rows.framed_from = deepest;
		break;
	case ROLE_NO_RULE:
		return -EINVAL;
	case ROLE_PLAIN:
		break;
	}
	return go_functions__depths(&r->functions, &f, put_depth, &rows);
}

uint32_t go_rules__n(const struct go_rules *r)
{
	return r->functions.n;
}

bool go_rules__function(struct go_rules *r, uint32_t i, uint64_t *start, uint64_t *end)
{
	struct go_function f, next;

	if (!go_functions__get(&r->functions, i, &f) || !eh_frame__covers(r->eh, f.start, f.end))
		return false;
	*start = f.start - is_signal_return(r, &f);
	*end = f.end;
	/* A function reaches to the next one. */
	if (go_functions__get(&r->functions, i + 1, &next) && next.start == f.end)
		*end -= is_signal_return(r, &next);
	return true;
}

void go_rules__span(const struct go_rules *r, uint64_t *start, uint64_t *end)
{
	*start = r->start;
	*end = r->end;
}

/* The functions that lie in the program's text. */
static void measure(struct go_rules *r)
{
	uint64_t start, end;

	r->start = UINT64_MAX;
	for (uint32_t i = 0; i < r->functions.n; i++) {
		if (!go_rules__function(r, i, &start, &end))
			continue;
		if (start < r->start)
			r->start = start;
		if (end > r->end)
			r->end = end;
	}
}

static void look_for_systemstack(struct go_rules *r)
{
	struct go_function f;

	r->to_goroutine = unsupported;
	/* There may be wrappers of the same name. */
	for (uint32_t i = 0; i < r->functions.n; i++) {
		if (go_functions__get(&r->functions, i, &f) && f.flags & GO_WRITES_SP &&
		    is_named(r, &f, "runtime.systemstack") && decode(r, &f)) {
			read_way_back(r);
			return;
		}
	}
}

int go_rules__new(const struct eh_frame *eh, struct go_rules **out)
{
	_cleanup_(go_rules) struct go_rules *r = NULL;
	struct go_functions functions = { 0 };
	int ret = go_functions__read(&eh->image, &functions);

	if (ret)
		return ret;
	r = calloc(1, sizeof(*r));
	if (!r) {
		go_functions__release(&functions);
		return -ENOMEM;
	}
	r->functions = functions;
	r->eh = eh;
	ret = stack_decoder__new(&r->decoder);
	if (ret)
		return ret;
	look_for_systemstack(r);
	measure(r);
	if (!r->end)
		return -ENOENT;
	*out = TAKE_PTR(r);
	return 0;
}

void go_rules__free(struct go_rules *r)
{
	if (!r)
		return;
	go_functions__release(&r->functions);
	stack_decoder__free(r->decoder);
	free(r);
}
