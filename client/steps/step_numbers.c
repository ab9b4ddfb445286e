// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/step_numbers.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

void step_numbers__sort(size_t *numbers, size_t n)
{
	if (n)
		qsort(numbers, n, sizeof(*numbers), compare);
}

struct step_mean step_numbers__mean(const size_t *numbers, size_t n)
{
	double sum = 0, squares = 0, count = (double)n;

	for (size_t i = 0; i < n; i++) {
		sum += (double)numbers[i];
		squares += (double)numbers[i] * (double)numbers[i];
	}
	return (struct step_mean){
		.mean = sum / count,
		.interval = n > 1 ? STEP_NUMBERS_Z_95 * sqrt(fmax(0, squares - sum * sum / count) / (count - 1) / count)
				  : 0,
	};
}

size_t step_numbers__quantile(const size_t *sorted, size_t n, double q)
{
	return sorted[(size_t)ceil(q * (double)n) - 1];
}
