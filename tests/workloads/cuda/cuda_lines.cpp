// SPDX-License-Identifier: GPL-2.0-or-later
// One hidden wait in an inlined function, and a copy in another, of a program with debug information. Tests look for
// the lines
// with the words "LINE name".
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

// As in <cuda_runtime_api.h>.
extern "C" int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
extern "C" int cudaDeviceSynchronize(void);
enum { cudaMemcpyDeviceToHost = 2 };

namespace
{
class Buffer
{
	void *memory = nullptr;

public:
	inline __attribute__((always_inline)) void download(void *to)
	{
		cudaMemcpy(to, memory, 4096, cudaMemcpyDeviceToHost); // LINE download
	}
};

inline __attribute__((always_inline)) void log_metrics()
{
	cudaDeviceSynchronize(); // LINE wait
}

__attribute__((noinline)) void step(Buffer &buffer, char *host)
{
	buffer.download(host);
	log_metrics(); // LINE step
	asm volatile("" : : : "memory");
}
} // namespace

int main(int argc, char **argv)
{
	time_t end = time(nullptr) + (argc > 1 ? atoi(argv[1]) : 10);
	static char host[4096];
	Buffer buffer;

	puts("ready");
	fflush(stdout);
	while (time(nullptr) < end) {
		step(buffer, host);
		usleep(2000);
	}
	return 0;
}
