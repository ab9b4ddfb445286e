// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines of the log, for people and for the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/os/log.h"

static FILE *file;

/* What is logged while standard error is the file. */
static const char *logged(void (*what)(void))
{
	static char text[4096];
	int saved = dup(STDERR_FILENO);
	size_t n;

	assert_return_code(saved, 0);
	rewind(file);
	assert_int_equal(ftruncate(fileno(file), 0), 0);
	assert_return_code(dup2(fileno(file), STDERR_FILENO), 0);
	what();
	assert_return_code(dup2(saved, STDERR_FILENO), 0);
	close(saved);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	return text;
}

static void both(void)
{
	log__info("it is %d", 1);
	log__error("it is\n%d", 2);
}

static void long_one(void)
{
	char words[2000];

	memset(words, 'x', sizeof(words));
	log__error("%.*s", (int)sizeof(words), words);
}

/* As systemd does for the file: "DEVICE:INODE". */
static void set_journal(int inode_off)
{
	char stream[64];
	struct stat st;

	assert_int_equal(fstat(fileno(file), &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + inode_off);
	setenv("JOURNAL_STREAM", stream, 1);
}

static void lines_for_people(void **state)
{
	static const char words[] = "stakeoutd: it is 1\nstakeoutd: it is?2\n";

	assert_string_equal(logged(both), words);
	/* The variable stays when standard error goes elsewhere. */
	set_journal(1);
	assert_string_equal(logged(both), words);
	setenv("JOURNAL_STREAM", "nonsense", 1);
	assert_string_equal(logged(both), words);
}

static void lines_for_the_journal(void **state)
{
	set_journal(0);
	assert_string_equal(logged(both), "<6>it is 1\n<3>it is?2\n");
	/* Of a private daemon the journal would say that its client wrote them. */
	log__set_quiet(true);
	assert_string_equal(logged(both), "<3>stakeoutd: it is?2\n");
	log__set_quiet(false);
}

static void long_lines_end(void **state)
{
	for (int journal = 0; journal < 2; journal++) {
		const char *text;

		if (journal)
			set_journal(0);
		else
			unsetenv("JOURNAL_STREAM");
		text = logged(long_one);
		assert_in_range(strlen(text), 1000, 1024);
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		assert_memory_equal(text, journal ? "<3>xxx" : "stakeoutd: xxx", 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_for_people),
		cmocka_unit_test(lines_for_the_journal),
		cmocka_unit_test(long_lines_end),
	};

	unsetenv("JOURNAL_STREAM");
	file = tmpfile();
	return file ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
