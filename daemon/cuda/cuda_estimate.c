// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_estimate.h"

#include "stakeout/cuda_names.h"

void cuda_estimates__add(struct cuda_estimates *into, const struct cuda_estimates *what, double times)
{
	for (unsigned i = 0; i < CUDA_ESTIMATES; i++) {
#define X(member, word) into->of[i].member += times * what->of[i].member;
		SO_CUDA_ESTIMATE_SUMS(X)
#undef X
	}
}

static json_t *json_of(const struct so_cuda_estimate *e)
{
	double interval = so_cuda_interval(e);
	json_auto_t *root = json_object();
	int ret = json_object_set_new(root, "interval", isnan(interval) ? json_null() : json_real(interval));

#define X(member, word) ret = ret ?: json_object_set_new(root, word, json_real(fmax(e->member, 0)));
	SO_CUDA_ESTIMATE_SUMS(X)
#undef X
	return ret ? NULL : json_incref(root);
}

json_t *cuda_estimates__json(const struct cuda_estimates *e)
{
	json_auto_t *root = NULL;
	json_t *apis;
	int ret;

	if (!cuda_estimates__are_any(e))
		return json_null();
	root = json_of(&e->of[CUDA_ESTIMATE_ALL]);
	apis = json_object();
	ret = json_object_set_new(root, "by_api", apis);
	for (unsigned i = 0; !ret && i < CUDA_ESTIMATE_ALL; i++) {
		if (e->of[i].calls > 0)
			ret = json_object_set_new(apis, cuda_names__api(i), json_of(&e->of[i]));
	}
	return ret ? NULL : json_incref(root);
}
