/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One call of cudaStreamSynchronize that takes long, begun when "ready" is printed. Usage: cuda_blocked [seconds]
 * STANDIN_CUDA, where it is set, takes the place of the seconds.
 */
#include "cuda_work.h"
#include "runtime_symbols.h"

cudart_STREAM_SYNC cudaStreamSynchronize;

FRAME void waits_for_gpu(cudaStream_t stream)
{
	cudaStreamSynchronize(stream);
}

int main(int argc, char **argv)
{
	char script[64];

	snprintf(script, sizeof(script), "cudaStreamSynchronize=%.0fms",
		 1000 * (argc > 1 ? atof(argv[1]) : 10));
	setenv("STANDIN_CUDA", script, 0);
	work__ready();
	waits_for_gpu((cudaStream_t)0x51000);
	return work__truth() ? 0 : 1;
}
