// SPDX-License-Identifier: GPL-2.0-or-later
// Spends its CPU time in an inlined function: sweep() -> relax() -> cell(), of which the first alone is a function of
// the
// program. Tests look for the lines with the words "LINE name".
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace grid
{
struct Field {
	double values[64];
	double cell(int i) const;
	double relax(int i);
};

inline __attribute__((always_inline)) double Field::cell(int i) const
{
	double sum = values[i];

	for (int n = 1; n < 3000; n++)
		sum = sum / 1.0001 + n; // LINE cell
	return sum;
}

inline __attribute__((always_inline)) double Field::relax(int i)
{
	return values[i] = cell(i) * 1e-9; // LINE relax
}

__attribute__((noinline)) double sweep(Field &field)
{
	double sum = 0;

	for (int i = 0; i < 64; i++)
		sum += field.relax(i); // LINE sweep
	return sum;
}
} // namespace grid

int main(int argc, char **argv)
{
	time_t end = time(nullptr) + (argc > 1 ? atoi(argv[1]) : 10);
	grid::Field field = {};
	volatile double total = 0;

	puts("ready");
	fflush(stdout);
	while (time(nullptr) < end)
		total = total + grid::sweep(field); // LINE main
	return 0;
}
