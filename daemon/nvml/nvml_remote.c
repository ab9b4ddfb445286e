/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/nvml/nvml_remote.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/os/clock.h"
#include "daemon/os/helper_process.h"
#include "daemon/nvml/helper/protocol.h"
#include "stakeout/cleanup.h"

#define MS          1000000ull
#define MAX_MESSAGE 400 /* bytes of an error's text that are taken over */

static struct {
	struct helper_process process;
	int fd;
	const char *gone; /* why, once it is */
	char words[NVML_TEXT_BYTES];
} helper = { .fd = -1 };

static void end_helper(void)
{
	if (helper.fd >= 0)
		close(helper.fd);
	helper.fd = -1;
	helper_process__end(&helper.process);
}

static int lose(const char *why)
{
	helper.gone = why;
	end_helper();
	return NVML_REMOTE_GONE;
}

static bool wait_for(short event, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd fd = { helper.fd, event, 0 };
		uint64_t now_ns = clock__now_ns();

		if (now_ns >= deadline_ns)
			return false;
		if (poll(&fd, 1, (int)((deadline_ns - now_ns) / MS) + 1) > 0)
			return true;
	}
}

/* All of it; 0, or as lose(). */
static int move(bool out, void *bytes, size_t length, uint64_t deadline_ns)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = out ? send(helper.fd, (char *)bytes + at, length - at, MSG_NOSIGNAL | MSG_DONTWAIT)
				: recv(helper.fd, (char *)bytes + at, length - at, MSG_DONTWAIT);

		if (n > 0)
			at += (size_t)n;
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return lose(NVML_HELPER " ended");
		else if (!wait_for(out ? POLLOUT : POLLIN, deadline_ns))
			return lose(NVML_HELPER " does not answer");
	}
	return 0;
}

static bool sound(const struct nvml_request *request, const struct nvml_answer *answer, size_t room)
{
	return answer->protocol == NVML_PROTOCOL && answer->call == request->call && answer->bytes <= room &&
	       answer->bytes <= NVML_MAX_ANSWER;
}

/* One request and its answer of up to `room` bytes. 0 or NVML_REMOTE_GONE: what NVML said is in the answer. */
static int exchange(struct nvml_request *request, struct nvml_answer *answer, void *bytes, size_t room)
{
	bool slow = request->call == NVML_CALL_LOAD || request->call == NVML_CALL_INIT;
	uint64_t limit_s = slow ? NVML_LOAD_LIMIT_S : NVML_CALL_LIMIT_S;
	uint64_t deadline_ns = clock__now_ns() + limit_s * 1000 * MS;

	if (helper.fd < 0)
		return NVML_REMOTE_GONE;
	request->protocol = NVML_PROTOCOL;
	if (move(true, request, sizeof(*request), deadline_ns) || move(false, answer, sizeof(*answer), deadline_ns))
		return NVML_REMOTE_GONE;
	if (!sound(request, answer, room))
		return lose(NVML_HELPER " is of another build");
	return move(false, bytes, answer->bytes, deadline_ns);
}

/* The functions of struct nvml_library. */

static uint32_t number_of(nvml_device device)
{
	return (uint32_t)(uintptr_t)device - 1;
}

static int plain(enum nvml_call call)
{
	struct nvml_request request = { .call = call };
	struct nvml_answer answer;

	return exchange(&request, &answer, NULL, 0) ? NVML_REMOTE_GONE : answer.code;
}

static int remote_init(void)
{
	return plain(NVML_CALL_INIT);
}

static int remote_shutdown(void)
{
	return plain(NVML_CALL_SHUTDOWN);
}

static int remote_text(enum nvml_call call, uint32_t device, char *out, unsigned room)
{
	struct nvml_request request = { .call = call, .device = device };
	struct nvml_answer answer;
	char text[NVML_TEXT_BYTES + 1] = "";

	if (exchange(&request, &answer, text, NVML_TEXT_BYTES))
		return NVML_REMOTE_GONE;
	if (!answer.code)
		snprintf(out, room, "%s", text);
	return answer.code;
}

static int remote_driver_version(char *out, unsigned room)
{
	return remote_text(NVML_CALL_DRIVER_VERSION, 0, out, room);
}

static int remote_name(nvml_device device, char *out, unsigned room)
{
	return remote_text(NVML_CALL_NAME, number_of(device), out, room);
}

static int remote_uuid(nvml_device device, char *out, unsigned room)
{
	return remote_text(NVML_CALL_UUID, number_of(device), out, room);
}

static int remote_count(unsigned *count)
{
	struct nvml_request request = { .call = NVML_CALL_COUNT };
	struct nvml_answer answer;

	if (exchange(&request, &answer, NULL, 0))
		return NVML_REMOTE_GONE;
	*count = answer.n;
	return answer.code;
}

static int remote_handle(unsigned index, nvml_device *device)
{
	struct nvml_request request = { .call = NVML_CALL_HANDLE, .device = index };
	struct nvml_answer answer;

	if (exchange(&request, &answer, NULL, 0))
		return NVML_REMOTE_GONE;
	*device = (nvml_device)((uintptr_t)index + 1);
	return answer.code;
}

/* An answer that must have exactly so many bytes where it is no failure. */
static int remote_struct(enum nvml_call call, nvml_device device, void *out, size_t size)
{
	struct nvml_request request = { .call = call, .device = number_of(device) };
	struct nvml_answer answer;

	if (exchange(&request, &answer, out, size))
		return NVML_REMOTE_GONE;
	return !answer.code && answer.bytes != size ? lose(NVML_HELPER " is of another build") : answer.code;
}

static int remote_utilisation(nvml_device device, struct nvml_utilisation *out)
{
	return remote_struct(NVML_CALL_UTILISATION, device, out, sizeof(*out));
}

static int remote_memory(nvml_device device, struct nvml_memory *out)
{
	return remote_struct(NVML_CALL_MEMORY, device, out, sizeof(*out));
}

static int remote_list(struct nvml_request *request, unsigned *n, void *out, size_t entry_bytes)
{
	struct nvml_answer answer;

	request->room = *n;
	if (exchange(request, &answer, out, *n * entry_bytes))
		return NVML_REMOTE_GONE;
	if (!answer.code && answer.bytes != (answer.n <= *n ? answer.n * entry_bytes : 0))
		return lose(NVML_HELPER " is of another build");
	*n = answer.n;
	return answer.code;
}

static int remote_process_samples(nvml_device device, struct nvml_process_sample *out, unsigned *n,
				  unsigned long long since_us)
{
	struct nvml_request request = { .call = NVML_CALL_PROCESS_SAMPLES,
					.device = number_of(device),
					.argument = since_us };

	return remote_list(&request, n, out, sizeof(*out));
}

static int remote_processes(nvml_device device, unsigned *n, void *out)
{
	struct nvml_request request = { .call = NVML_CALL_PROCESSES, .device = number_of(device) };

	return remote_list(&request, n, out, NVML_PROCESS_INFO_MAX_BYTES);
}

static const char *remote_words(int code)
{
	struct nvml_request request = { .call = NVML_CALL_WORDS, .argument = (uint32_t)code };
	struct nvml_answer answer;

	memset(helper.words, 0, sizeof(helper.words));
	if (code == NVML_REMOTE_GONE || exchange(&request, &answer, helper.words, sizeof(helper.words) - 1))
		return helper.gone;
	return helper.words[0] ? helper.words : NULL;
}

/* Start and end. */

static int beside_this_program(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof("/" NVML_HELPER));
	char *slash;

	if (n <= 0)
		return -ENOENT;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	strcpy(slash + 1, NVML_HELPER);
	return 0;
}

static void take_functions(struct nvml_library *library, uint32_t there)
{
	*library = (struct nvml_library){
		.error_string = remote_words,
		.init = remote_init,
		.shutdown = remote_shutdown,
		.count = remote_count,
		.handle = remote_handle,
		.utilisation = remote_utilisation,
		.driver_version = there & 1u << NVML_CALL_DRIVER_VERSION ? remote_driver_version : NULL,
		.name = there & 1u << NVML_CALL_NAME ? remote_name : NULL,
		.uuid = there & 1u << NVML_CALL_UUID ? remote_uuid : NULL,
		.memory = there & 1u << NVML_CALL_MEMORY ? remote_memory : NULL,
		.process_samples = there & 1u << NVML_CALL_PROCESS_SAMPLES ? remote_process_samples : NULL,
		.processes = there & 1u << NVML_CALL_PROCESSES ? remote_processes : NULL,
	};
}

static int load_there(struct nvml_library *library, const char *path, struct so_error *err)
{
	struct nvml_request request = { .call = NVML_CALL_LOAD };
	char text[MAX_MESSAGE + 1] = "";
	struct nvml_answer answer;

	if (exchange(&request, &answer, text, MAX_MESSAGE))
		return so_err(err, -EIO, "%s cannot be used: %s", path, helper.gone);
	for (char *p = text; *p; p++)
		*p = (unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e ? '?' : *p;
	if (answer.code)
		return so_err(err, answer.code < 0 && answer.code > -4096 ? answer.code : -EIO, "%s", text);
	take_functions(library, answer.n);
	return 0;
}

int nvml_remote__load(struct nvml_library *library, const char *program, const char *path, struct so_error *err)
{
	char beside[PATH_MAX] = NVML_HELPER;
	int pair[2], ret;

	if (helper.process.pid)
		return so_err(err, -EBUSY, "%s runs already", NVML_HELPER);
	if (!program) {
		ret = beside_this_program(beside);
		if (ret < 0)
			return so_err(err, -ENOTSUP, "where this program lies is not known, so %s is not found",
				      NVML_HELPER);
		program = beside;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return so_err(err, -errno, "no socket for %s: %s", NVML_HELPER, strerror(errno));
	helper.fd = pair[0];
	helper.gone = NULL;
	ret = helper_process__start(&helper.process, program, path, pair[1]);
	close(pair[1]);
	if (ret < 0)
		end_helper();
	if (ret == -EBUSY)
		return so_err(err, -EBUSY, "%d killed %s have not ended: the driver holds them", HELPER_MAX_STUCK,
			      NVML_HELPER);
	if (ret < 0)
		return so_err(err, -ENOTSUP,
			      "%s, through which a statically linked stakeoutd reads %s, does not start: %s", program,
			      path, strerror(-ret));
	ret = load_there(library, path, err);
	if (ret < 0)
		end_helper();
	return ret;
}

bool nvml_remote__is_gone(void)
{
	return helper.fd < 0;
}

void nvml_remote__unload(void)
{
	end_helper();
}
