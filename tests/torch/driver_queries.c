/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What libcaffe2_nvrtc.so wants of the driver besides the calls that are timed. Nothing that these promise is used. */
#include "driver_symbols.h"
#include "standin.h"
#include "standin_state.h"

#define NONE(symbol)                         \
	STANDIN_ENTRY CUresult symbol(void); \
	STANDIN_ENTRY CUresult symbol(void)  \
	{                                    \
		STANDIN_PROLOGUE;            \
		return CUDA_SUCCESS;         \
	}

STANDIN_ENTRY CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
STANDIN_ENTRY CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	STANDIN_PROLOGUE;
	*flags = 0;
	*active = 1;
	return CUDA_SUCCESS;
}

NONE(cuFuncGetAttribute)
NONE(cuFuncSetAttribute)
NONE(cuLinkAddData_v2)
NONE(cuLinkComplete)
NONE(cuLinkCreate_v2)
NONE(cuModuleLoadDataEx)
NONE(cuModuleUnload)
NONE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NONE(cuTensorMapEncodeTiled)
