// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stakeout-nvml: calls NVIDIA's management library for a stakeoutd that cannot load it, because it is linked
 * statically. Usage: stakeout-nvml LIBRARY, with a socket as standard input (daemon/nvml/helper/protocol.h). It ends
 * with the daemon: the socket is closed then. A call of the library that does not return ends it by SIGALRM.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/nvml/nvml.h"
#include "daemon/nvml/nvml_library.h"
#include "daemon/nvml/helper/protocol.h"

#define MAX_SAMPLES 4096 /* of processes in one answer: the daemon's room */

_Static_assert(MAX_SAMPLES * sizeof(struct nvml_process_sample) <= NVML_MAX_ANSWER, "an answer holds them");
_Static_assert(NVML_MAX_PROCESSES *NVML_PROCESS_INFO_MAX_BYTES <= NVML_MAX_ANSWER, "an answer holds them");

struct helper {
	struct nvml_library call;
	const char *path;
	nvml_device handles[NVML_MAX_DEVICES];
	union {
		char bytes[NVML_MAX_ANSWER];
		struct nvml_utilisation utilisation;
		struct nvml_memory memory;
		struct nvml_process_sample samples[MAX_SAMPLES];
		char text[NVML_TEXT_BYTES];
	} out;
};

/* All of it, or false at the end. */
static bool receive(void *to, size_t length)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = read(STDIN_FILENO, (char *)to + at, length - at);

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static bool give(const void *from, size_t length)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = send(STDIN_FILENO, (const char *)from + at, length - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void load(struct helper *h, struct nvml_answer *answer)
{
	struct so_error err = { "" };

	nvml_library__unload(&h->call);
	answer->code = nvml_library__load(&h->call, h->path, &err);
	if (answer->code) {
		answer->bytes = (uint32_t)strlen(err.text);
		memcpy(h->out.bytes, err.text, answer->bytes);
		return;
	}
	answer->n = (h->call.driver_version ? 1u << NVML_CALL_DRIVER_VERSION : 0) |
		    (h->call.name ? 1u << NVML_CALL_NAME : 0) | (h->call.uuid ? 1u << NVML_CALL_UUID : 0) |
		    (h->call.memory ? 1u << NVML_CALL_MEMORY : 0) |
		    (h->call.process_samples ? 1u << NVML_CALL_PROCESS_SAMPLES : 0) |
		    (h->call.processes ? 1u << NVML_CALL_PROCESSES : 0);
}

static void words(struct helper *h, int code, struct nvml_answer *answer)
{
	const char *text = h->call.error_string ? h->call.error_string(code) : NULL;

	answer->bytes = text ? (uint32_t)strnlen(text, NVML_TEXT_BYTES) : 0;
	if (text)
		memcpy(h->out.text, text, answer->bytes);
}

static void text_of(struct helper *h, int (*get)(nvml_device, char *, unsigned), nvml_device device,
		    struct nvml_answer *answer)
{
	answer->code = get ? get(device, h->out.text, NVML_TEXT_BYTES) : NVML_FUNCTION_NOT_FOUND;
	answer->bytes = answer->code ? 0 : (uint32_t)strnlen(h->out.text, NVML_TEXT_BYTES);
}

static void process_samples(struct helper *h, nvml_device device, const struct nvml_request *request,
			    struct nvml_answer *answer)
{
	unsigned n = request->room < MAX_SAMPLES ? request->room : MAX_SAMPLES, room = n;

	answer->code = h->call.process_samples
			       ? h->call.process_samples(device, h->out.samples, &n, request->argument)
			       : NVML_FUNCTION_NOT_FOUND;
	answer->n = n;
	if (!answer->code && n <= room)
		answer->bytes = n * (uint32_t)sizeof(h->out.samples[0]);
}

static void processes(struct helper *h, nvml_device device, const struct nvml_request *request,
		      struct nvml_answer *answer)
{
	unsigned n = request->room < NVML_MAX_PROCESSES ? request->room : NVML_MAX_PROCESSES, room = n;

	memset(h->out.bytes, NVML_UNTOUCHED, (size_t)room * NVML_PROCESS_INFO_MAX_BYTES);
	answer->code =
		h->call.processes ? h->call.processes(device, &n, h->out.bytes) : NVML_FUNCTION_NOT_FOUND;
	answer->n = n;
	if (!answer->code && n <= room)
		answer->bytes = n * NVML_PROCESS_INFO_MAX_BYTES;
}

static void ask_device(struct helper *h, const struct nvml_request *request, struct nvml_answer *answer)
{
	nvml_device device = h->handles[request->device];

	switch (request->call) {
	case NVML_CALL_HANDLE:
		answer->code = h->call.handle(request->device, &h->handles[request->device]);
		break;
	case NVML_CALL_NAME:
		text_of(h, h->call.name, device, answer);
		break;
	case NVML_CALL_UUID:
		text_of(h, h->call.uuid, device, answer);
		break;
	case NVML_CALL_UTILISATION:
		answer->code = h->call.utilisation(device, &h->out.utilisation);
		answer->bytes = answer->code ? 0 : sizeof(h->out.utilisation);
		break;
	case NVML_CALL_MEMORY:
		answer->code =
			h->call.memory ? h->call.memory(device, &h->out.memory) : NVML_FUNCTION_NOT_FOUND;
		answer->bytes = answer->code ? 0 : sizeof(h->out.memory);
		break;
	case NVML_CALL_PROCESS_SAMPLES:
		process_samples(h, device, request, answer);
		break;
	case NVML_CALL_PROCESSES:
		processes(h, device, request, answer);
		break;
	}
}

static void ask(struct helper *h, const struct nvml_request *request, struct nvml_answer *answer)
{
	switch (request->call) {
	case NVML_CALL_LOAD:
		load(h, answer);
		break;
	case NVML_CALL_WORDS:
		words(h, (int)request->argument, answer);
		break;
	case NVML_CALL_INIT:
		answer->code = h->call.init();
		break;
	case NVML_CALL_SHUTDOWN:
		answer->code = h->call.shutdown();
		break;
	case NVML_CALL_DRIVER_VERSION:
		answer->code = h->call.driver_version ? h->call.driver_version(h->out.text, NVML_TEXT_BYTES)
						      : NVML_FUNCTION_NOT_FOUND;
		answer->bytes = answer->code ? 0 : (uint32_t)strnlen(h->out.text, NVML_TEXT_BYTES);
		break;
	case NVML_CALL_COUNT:
		answer->code = h->call.count(&answer->n);
		break;
	default:
		ask_device(h, request, answer);
	}
}

/* Nothing is called before the library is there. */
static bool valid(const struct helper *h, const struct nvml_request *request)
{
	return request->protocol == NVML_PROTOCOL && request->call < NVML_CALLS &&
	       request->device < NVML_MAX_DEVICES && (h->call.dl || request->call == NVML_CALL_LOAD);
}

int main(int argc, char **argv)
{
	static struct helper helper;
	struct nvml_request request;

	if (argc != 2) {
		fprintf(stderr, "stakeout-nvml: started by stakeoutd alone\n");
		return 2;
	}
	helper.path = argv[1];
	while (receive(&request, sizeof(request))) {
		struct nvml_answer answer = { .protocol = NVML_PROTOCOL, .call = request.call };

		if (!valid(&helper, &request))
			return 2;
		/* Longer than the daemon waits, which kills it before. */
		alarm(NVML_LOAD_LIMIT_S + NVML_CALL_LIMIT_S);
		ask(&helper, &request, &answer);
		alarm(0);
		if (!give(&answer, sizeof(answer)) || !give(helper.out.bytes, answer.bytes))
			return 1;
	}
	return 0;
}
