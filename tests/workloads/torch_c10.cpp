// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stand-in for PyTorch's libc10: the functions that its allocator reports to, with their mangled names, which do
 * nothing. With OLD_FORM that of PyTorch 1.8; and report_many(), for what a report costs.
 */
#include <cstddef>
#include <cstdint>

namespace c10
{

class Device
{
      public:
	int8_t type, index;
};

static volatile int64_t sink;

#ifdef OLD_FORM
__attribute__((noinline)) void reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, Device device)
{
	sink = alloc_size + device.index + (int64_t)ptr;
}
#else
/* Beyond what the compiler may leave out: a frame, as the true one has. */
__attribute__((noinline)) void keep(const volatile int64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sink = sink + words[i];
}

__attribute__((noinline)) void reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t total_allocated,
							   size_t total_reserved, Device device)
{
	const volatile int64_t words[] = { (int64_t)ptr, alloc_size, (int64_t)total_allocated, (int64_t)total_reserved,
					   device.index };

	keep(words, 5);
	sink = words[1];
}

__attribute__((noinline)) void reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated,
							   size_t total_reserved, Device device)
{
	const volatile int64_t words[] = { alloc_size, (int64_t)total_allocated, (int64_t)total_reserved,
					   device.index };

	keep(words, 4);
	sink = words[1];
}
#endif

} // namespace c10

#ifndef OLD_FORM
/* So many blocks of one size, each given back at once. */
extern "C" void report_many(uint64_t n, int64_t bytes)
{
	const c10::Device device = { 1, 0 };

	for (uint64_t i = 0; i < n; i++) {
		c10::reportMemoryUsageToProfiler((void *)(0x7f0000000000 + i % 64 * 512), bytes, (size_t)bytes, 1 << 30,
						 device);
		c10::reportMemoryUsageToProfiler((void *)(0x7f0000000000 + i % 64 * 512), -bytes, 0, 1 << 30, device);
	}
}
#endif
