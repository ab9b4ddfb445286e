// SPDX-License-Identifier: GPL-2.0-or-later
// An exception on its way through frames with destructors. A second one is thrown while the first is handled.
#include <cstdio>
#include <stdexcept>
#include <string>

#define FRAME __attribute__((noipa))

struct guard {
	std::string name;
	FRAME ~guard()
	{
		std::printf("%s\n", name.c_str());
	}
};

FRAME static void fail(int depth)
{
	guard g{ "a name too long to be kept in place " + std::to_string(depth) };

	if (depth == 0)
		throw std::runtime_error(g.name);
	fail(depth - 1);
	std::printf("not reached\n");
}

int main()
{
	try {
		fail(3);
	} catch (const std::runtime_error &first) {
		try {
			fail(1);
		} catch (const std::exception &second) {
			std::printf("%s, %s\n", first.what(), second.what());
		}
	}
	return 0;
}
