// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_codes.h"

#include <stddef.h>
#include <string.h>

#define RUNTIME(name) "cudaError" name
#define DRIVER(name)  "CUDA_ERROR_" name

static const struct {
	uint32_t code;
	const char *runtime, *driver; /* NULL: the API has no such code */
} codes[] = {
	{ 1, RUNTIME("InvalidValue"), DRIVER("INVALID_VALUE") },
	{ 2, RUNTIME("MemoryAllocation"), DRIVER("OUT_OF_MEMORY") },
	{ 3, RUNTIME("InitializationError"), DRIVER("NOT_INITIALIZED") },
	{ 4, RUNTIME("CudartUnloading"), DRIVER("DEINITIALIZED") },
	{ 9, RUNTIME("InvalidConfiguration"), NULL },
	{ 12, RUNTIME("InvalidPitchValue"), NULL },
	{ 13, RUNTIME("InvalidSymbol"), NULL },
	{ 17, RUNTIME("InvalidDevicePointer"), NULL },
	{ 21, RUNTIME("InvalidMemcpyDirection"), NULL },
	{ 34, RUNTIME("StubLibrary"), DRIVER("STUB_LIBRARY") },
	{ 35, RUNTIME("InsufficientDriver"), NULL },
	{ 36, RUNTIME("CallRequiresNewerDriver"), NULL },
	{ 46, RUNTIME("DevicesUnavailable"), DRIVER("DEVICE_UNAVAILABLE") },
	{ 98, RUNTIME("InvalidDeviceFunction"), NULL },
	{ 100, RUNTIME("NoDevice"), DRIVER("NO_DEVICE") },
	{ 101, RUNTIME("InvalidDevice"), DRIVER("INVALID_DEVICE") },
	{ 200, RUNTIME("InvalidKernelImage"), DRIVER("INVALID_IMAGE") },
	{ 201, RUNTIME("DeviceUninitialized"), DRIVER("INVALID_CONTEXT") },
	{ 209, RUNTIME("NoKernelImageForDevice"), DRIVER("NO_BINARY_FOR_GPU") },
	{ 214, RUNTIME("ECCUncorrectable"), DRIVER("ECC_UNCORRECTABLE") },
	{ 218, RUNTIME("InvalidPtx"), DRIVER("INVALID_PTX") },
	{ 220, RUNTIME("NvlinkUncorrectable"), DRIVER("NVLINK_UNCORRECTABLE") },
	{ 222, RUNTIME("UnsupportedPtxVersion"), DRIVER("UNSUPPORTED_PTX_VERSION") },
	{ 304, RUNTIME("OperatingSystem"), DRIVER("OPERATING_SYSTEM") },
	{ 400, RUNTIME("InvalidResourceHandle"), DRIVER("INVALID_HANDLE") },
	{ 401, RUNTIME("IllegalState"), DRIVER("ILLEGAL_STATE") },
	{ 500, RUNTIME("SymbolNotFound"), DRIVER("NOT_FOUND") },
	{ 600, RUNTIME("NotReady"), DRIVER("NOT_READY") },
	{ 700, RUNTIME("IllegalAddress"), DRIVER("ILLEGAL_ADDRESS") },
	{ 701, RUNTIME("LaunchOutOfResources"), DRIVER("LAUNCH_OUT_OF_RESOURCES") },
	{ 702, RUNTIME("LaunchTimeout"), DRIVER("LAUNCH_TIMEOUT") },
	{ 704, RUNTIME("PeerAccessAlreadyEnabled"), DRIVER("PEER_ACCESS_ALREADY_ENABLED") },
	{ 705, RUNTIME("PeerAccessNotEnabled"), DRIVER("PEER_ACCESS_NOT_ENABLED") },
	{ 709, RUNTIME("ContextIsDestroyed"), DRIVER("CONTEXT_IS_DESTROYED") },
	{ 710, RUNTIME("Assert"), DRIVER("ASSERT") },
	{ 712, RUNTIME("HostMemoryAlreadyRegistered"), DRIVER("HOST_MEMORY_ALREADY_REGISTERED") },
	{ 713, RUNTIME("HostMemoryNotRegistered"), DRIVER("HOST_MEMORY_NOT_REGISTERED") },
	{ 714, RUNTIME("HardwareStackError"), DRIVER("HARDWARE_STACK_ERROR") },
	{ 715, RUNTIME("IllegalInstruction"), DRIVER("ILLEGAL_INSTRUCTION") },
	{ 716, RUNTIME("MisalignedAddress"), DRIVER("MISALIGNED_ADDRESS") },
	{ 717, RUNTIME("InvalidAddressSpace"), DRIVER("INVALID_ADDRESS_SPACE") },
	{ 718, RUNTIME("InvalidPc"), DRIVER("INVALID_PC") },
	{ 719, RUNTIME("LaunchFailure"), DRIVER("LAUNCH_FAILED") },
	{ 720, RUNTIME("CooperativeLaunchTooLarge"), DRIVER("COOPERATIVE_LAUNCH_TOO_LARGE") },
	{ 800, RUNTIME("NotPermitted"), DRIVER("NOT_PERMITTED") },
	{ 801, RUNTIME("NotSupported"), DRIVER("NOT_SUPPORTED") },
	{ 802, RUNTIME("SystemNotReady"), DRIVER("SYSTEM_NOT_READY") },
	{ 803, RUNTIME("SystemDriverMismatch"), DRIVER("SYSTEM_DRIVER_MISMATCH") },
	{ 804, RUNTIME("CompatNotSupportedOnDevice"), DRIVER("COMPAT_NOT_SUPPORTED_ON_DEVICE") },
	{ 900, RUNTIME("StreamCaptureUnsupported"), DRIVER("STREAM_CAPTURE_UNSUPPORTED") },
	{ 901, RUNTIME("StreamCaptureInvalidated"), DRIVER("STREAM_CAPTURE_INVALIDATED") },
	{ 902, RUNTIME("StreamCaptureMerge"), DRIVER("STREAM_CAPTURE_MERGE") },
	{ 903, RUNTIME("StreamCaptureUnmatched"), DRIVER("STREAM_CAPTURE_UNMATCHED") },
	{ 904, RUNTIME("StreamCaptureUnjoined"), DRIVER("STREAM_CAPTURE_UNJOINED") },
	{ 905, RUNTIME("StreamCaptureIsolation"), DRIVER("STREAM_CAPTURE_ISOLATION") },
	{ 906, RUNTIME("StreamCaptureImplicit"), DRIVER("STREAM_CAPTURE_IMPLICIT") },
	{ 907, RUNTIME("CapturedEvent"), DRIVER("CAPTURED_EVENT") },
	{ 908, RUNTIME("StreamCaptureWrongThread"), DRIVER("STREAM_CAPTURE_WRONG_THREAD") },
	{ 909, RUNTIME("Timeout"), DRIVER("TIMEOUT") },
	{ 910, RUNTIME("GraphExecUpdateFailure"), DRIVER("GRAPH_EXEC_UPDATE_FAILURE") },
	{ 999, RUNTIME("Unknown"), DRIVER("UNKNOWN") },
};

const char *cuda_codes__name(const char *api, uint32_t code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == code)
			return strncmp(api, "cuda", strlen("cuda")) ? codes[i].driver : codes[i].runtime;
	return NULL;
}
