// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/viewers.h"

#include <errno.h>

#include "daemon/os/log.h"

/* Beyond it the viewer sees nothing of the target any more. */
#define MAX_HIDDEN 65536

/* A user's own targets have no process that is not the user's. */
static bool is_shared(const struct target *t)
{
	return !t->caller.uid && t->info.viewer.uid;
}

static bool is_hidden(const struct target *t, pid_t pid)
{
	uint32_t value;

	return u64_table__get(&t->hidden, (uint64_t)pid, &value);
}

void viewers__hide(struct target *t, pid_t pid)
{
	if (!is_shared(t) || is_hidden(t, pid))
		return;
	if (!t->hidden.n)
		log__info("process %d of target %u has other rights than user %u: it is shown to root alone", pid,
			  t->id, t->info.viewer.uid);
	if (t->hidden.n == MAX_HIDDEN || u64_table__set(&t->hidden, (uint64_t)pid, 1))
		t->info.viewer = (struct caller){ 0 };
}

void viewers__check(struct target *t, pid_t pid)
{
	if (is_shared(t) && process_access__check(pid, t->info.viewer, NULL) == -EPERM)
		viewers__hide(t, pid);
}

void viewers__inherit(struct target *t, pid_t child, pid_t parent)
{
	if (is_hidden(t, parent))
		viewers__hide(t, child);
}

bool viewers__hide_any(const struct target *t)
{
	return target__proper(t)->hidden.n > 0;
}

int viewers__hidden_from(const struct target *t, struct caller caller, struct u64_table *out)
{
	const struct target *proper = target__proper(t);

	if (!caller.uid)
		return 0;
	if (!caller__sees(caller, proper->info.viewer))
		return -EPERM;
	return u64_table__copy(&proper->hidden, out);
}

void viewers__keep(struct target *view)
{
	if (u64_table__copy(&view->of->hidden, &view->hidden))
		view->info.viewer = (struct caller){ 0 };
}
