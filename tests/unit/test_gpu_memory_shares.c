// SPDX-License-Identifier: GPL-2.0-or-later
/* For whom the memory of targets on GPUs is watched, and how many of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/targets/gpu_memory_internal.h"

#define MOST 40

static struct target all[MOST];
static unsigned n;
static struct targets table;
static struct gpu_memory g;

static int setup(void **state)
{
	memset(all, 0, sizeof(all));
	n = 0;
	table = (struct targets){ 0 };
	g = (struct gpu_memory){ .targets = &table };
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < n; i++)
		gpu_memory_drop_kept(&all[i].gpu_memory);
	return 0;
}

/* of: NULL: no view. */
static struct target *add(uid_t uid, struct target *of)
{
	struct target *t = &all[n++];

	*t = (struct target){ .caller.uid = uid, .view = of, .of = of };
	assert_int_equal(targets__add(&table, t), 0);
	return t;
}

/* As gpu_memory__begin() has it. */
static int begin(struct target *t)
{
	struct so_error err = { .text = "" };
	struct target *proper = t->of ?: t;
	int ret = gpu_memory_take_share(&g, t, &err);

	if (ret) {
		assert_non_null(strstr(err.text, "which is the most"));
		return ret;
	}
	t->gpu_memory.asked = t->gpu_memory.wanted = true;
	proper->gpu_memory.on = proper->gpu_memory.maps = true;
	proper->gpu_memory.views += t->of != NULL;
	return 0;
}

/* The view's target ends. */
static void keep(struct target *view)
{
	view->gpu_memory.kept = calloc(1, sizeof(*view->gpu_memory.kept));
	view->gpu_memory.kept->maps = (struct torch_maps)TORCH_MAPS_NONE;
	view->gpu_memory.kept_of = view->of->id;
	view->gpu_memory.wanted = false;
	view->of->gpu_memory.on = view->of->gpu_memory.maps = false;
	view->of = NULL;
}

static void a_users_own(void **state)
{
	for (unsigned i = 0; i < GPU_MEMORY_MAX_USER; i++)
		assert_int_equal(begin(add(1000, NULL)), 0);
	assert_int_equal(begin(add(1000, NULL)), -ENOSPC);
	assert_int_equal(begin(add(1001, NULL)), 0);
	assert_int_equal(begin(add(0, NULL)), 0);
}

/* Of root's targets, whether root has them watched or not. */
static void views_are_their_users(void **state)
{
	struct target *first = NULL;

	for (unsigned i = 0; i < GPU_MEMORY_MAX_USER; i++) {
		struct target *roots = add(0, NULL);

		first = first ?: roots;
		if (i % 2)
			assert_int_equal(begin(roots), 0);
		assert_int_equal(begin(add(1000, roots)), 0);
	}
	assert_int_equal(begin(add(1000, add(0, NULL))), -ENOSPC);
	assert_int_equal(begin(add(1000, NULL)), -ENOSPC);
	/* Once more the same one. */
	assert_int_equal(begin(add(1000, first)), 0);
	/* They are not root's, nor others'. */
	assert_int_equal(begin(add(1001, NULL)), 0);
	for (unsigned i = 0; i < GPU_MEMORY_MAX - GPU_MEMORY_MAX_USER - 1; i++)
		assert_int_equal(begin(add(0, NULL)), 0);
	assert_int_equal(begin(add(0, NULL)), -ENOSPC);
}

/* What root has watched of a user's process is not the user's. */
static void roots_views_are_roots(void **state)
{
	for (unsigned i = 0; i < GPU_MEMORY_MAX_USER; i++)
		assert_int_equal(begin(add(0, add(1000, NULL))), 0);
	for (unsigned i = 0; i < GPU_MEMORY_MAX_USER; i++)
		assert_int_equal(begin(add(1000, NULL)), 0);
	assert_int_equal(begin(add(1000, NULL)), -ENOSPC);
}

static void users_together(void **state)
{
	for (uid_t uid = 1; uid <= GPU_MEMORY_MAX_USERS; uid++)
		assert_int_equal(begin(add(uid, NULL)), 0);
	assert_int_equal(begin(add(99, NULL)), -ENOSPC);
	assert_int_equal(begin(add(0, NULL)), 0);
}

/* What views keep of targets that have ended is counted, and goes first. */
static void what_is_kept(void **state)
{
	struct target *view, *last;

	for (unsigned i = 0; i < GPU_MEMORY_MAX_USER; i++) {
		view = add(1000, add(0, NULL));
		assert_int_equal(begin(view), 0);
		keep(view);
	}
	last = view;
	assert_int_equal(begin(add(1000, NULL)), 0);
	assert_null(all[1].gpu_memory.kept);
	assert_non_null(last->gpu_memory.kept);
	/* Another user's stay. */
	for (unsigned i = 0; i < GPU_MEMORY_MAX_USER; i++)
		assert_int_equal(begin(add(1001, NULL)), 0);
	assert_int_equal(begin(add(1001, NULL)), -ENOSPC);
	assert_non_null(last->gpu_memory.kept);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_users_own),    TEST(views_are_their_users), TEST(roots_views_are_roots),
		TEST(users_together), TEST(what_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
