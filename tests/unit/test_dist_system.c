/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Users and groups in a static program (include/static/system.c) against glibc's, asked for the same in this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES 8192
#define MAX_GROUPS   64

static void ask(const char *user, const char *group, char output[OUTPUT_BYTES])
{
	char command[PATH_MAX + 256];
	ssize_t n = readlink("/proc/self/exe", command, PATH_MAX);
	FILE *f;

	assert_true(n > 0);
	command[n] = '\0';
	sprintf(strrchr(command, '/') + 1, "dist_system_static %s %s", user, group);
	f = popen(command, "r");
	assert_non_null(f);
	n = (ssize_t)fread(output, 1, OUTPUT_BYTES - 1, f);
	output[n] = '\0';
	assert_int_equal(pclose(f), 0);
}

static void expect(const char *output, const char *format, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (!strstr(output, line))
		fail_msg("no \"%s\" in \"%s\"", line, output);
}

static unsigned lines_with(const char *output, const char *begin)
{
	unsigned n = 0;

	for (const char *p = strstr(output, begin); p; p = strstr(p + 1, begin))
		n++;
	return n;
}

static void test_as_glibc(void **state)
{
	static const char *const users[] = { "root", "daemon", "nobody" };

	for (unsigned i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		const struct passwd *user = getpwnam(users[i]);
		const struct group *group;
		char output[OUTPUT_BYTES];
		gid_t groups[MAX_GROUPS];
		int n = MAX_GROUPS;

		assert_non_null(user);
		group = getgrgid(user->pw_gid);
		assert_non_null(group);
		ask(users[i], group->gr_name, output);
		expect(output, "user %s %u %u %s\n", users[i], user->pw_uid, user->pw_gid, user->pw_dir);
		expect(output, "group %s %u %s\n", group->gr_name, group->gr_gid, group->gr_name);
		assert_true(getgrouplist(users[i], user->pw_gid, groups, &n) >= 0);
		for (int k = 0; k < n; k++)
			expect(output, "in %u\n", groups[k]);
		assert_int_equal(lines_with(output, "\nin "), n);
		expect(output, "small buffer\n");
		expect(output, "nothing loaded\n");
	}
}

static void test_absent(void **state)
{
	char output[OUTPUT_BYTES];

	ask("no-such-user", "no-such-group", output);
	expect(output, "no user 0\n");
	expect(output, "no group\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_glibc),
		cmocka_unit_test(test_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
