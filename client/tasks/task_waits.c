// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/tasks/task_waits.h"

#include <string.h>

/* Modules of asyncio, and the beginning of the functions' qualified names. */
static const struct {
	const char *file, *function, *words;
} waits[] = {
	{ "tasks.py", "sleep", "a sleep" },
	{ "tasks.py", "wait_for", "a task or future, with a timeout" },
	{ "tasks.py", "_wait", "tasks or futures (asyncio.wait)" },
	{ "tasks.py", "wait", "tasks or futures (asyncio.wait)" },
	{ "taskgroups.py", "TaskGroup", "the tasks of its group" },
	{ "locks.py", "Lock", "a lock" },
	{ "locks.py", "Event", "an event" },
	{ "locks.py", "Condition", "a condition" },
	{ "locks.py", "Semaphore", "a semaphore" },
	{ "locks.py", "Barrier", "a barrier" },
	{ "queues.py", "Queue.get", "an item of a queue" },
	{ "queues.py", "Queue.put", "room in a queue" },
	{ "queues.py", "Queue.join", "a queue to be done" },
	{ "streams.py", "StreamReader", "data from a stream" },
	{ "streams.py", "StreamWriter", "a stream to take data" },
	{ "streams.py", "FlowControlMixin", "a stream to take data" },
	{ "subprocess.py", "Process", "a process" },
	{ "base_subprocess.py", "", "a process" },
	{ "base_events.py", "BaseEventLoop.getaddrinfo", "a host's address" },
	{ "selector_events.py", "BaseSelectorEventLoop.sock_", "a socket" },
	{ "threads.py", "to_thread", "a thread" },
};

/* "asyncio/tasks.py" at its end. */
static const char *module_of(const char *file)
{
	const char *name = strrchr(file, '/');
	size_t before = strlen("asyncio");

	if (!name || (size_t)(name - file) < before || memcmp(name - before, "asyncio", before) != 0)
		return NULL;
	return name + 1;
}

const char *task_waits__for(const json_t *frames)
{
	size_t n = json_array_size(frames);
	const json_t *innermost = n ? json_array_get(frames, n - 1) : NULL;
	const char *file = json_string_value(json_object_get(innermost, "file"));
	const char *function = json_string_value(json_object_get(innermost, "function"));
	const char *module = file ? module_of(file) : NULL;

	for (size_t i = 0; module && function && i < sizeof(waits) / sizeof(waits[0]); i++)
		if (!strcmp(module, waits[i].file) && !strncmp(function, waits[i].function, strlen(waits[i].function)))
			return waits[i].words;
	return NULL;
}
