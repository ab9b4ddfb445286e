# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up training loop in Python that calls the stand-in CUDA runtime: batches copied from pageable memory, launches in
forward() and backward(), and one wait, hidden in item(). The last line is truth as JSON.
Usage: py_cuda_training.py FOLDER [iterations] [stdin|no]
FOLDER holds libcudart.so.12. An iteration calls: cudaMemcpy 2, cudaLaunchKernel 20, cudaMalloc 1, cudaFree 1, cudaMemcpyAsync 1,
cudaStreamSynchronize 1. Without STANDIN_CUDA the calls take times like those of a small model."""
import ctypes
import os
import sys

LATENCIES = (
    "cudaLaunchKernel=4us*9/12us,cudaMemcpy=30us,cudaMemcpyAsync=8us,cudaStreamSynchronize=3ms,"
    "cudaMalloc=150us,cudaFree=80us"
)
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Cuda:
    """The calls of a loaded runtime, with their arguments' types."""

    def __init__(self, folder):
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.library = ctypes.CDLL(os.path.join(folder, "libcudart.so.12"))
        for name, arguments in (
            ("cudaLaunchKernel", (pointer, Dim3, Dim3, pointer, size, pointer)),
            ("cudaMalloc", (ctypes.POINTER(pointer), size)),
            ("cudaFree", (pointer,)),
            ("cudaMemcpy", (pointer, pointer, size, ctypes.c_int)),
            ("cudaMemcpyAsync", (pointer, pointer, size, ctypes.c_int, pointer)),
            ("cudaStreamCreate", (ctypes.POINTER(pointer),)),
            ("cudaStreamSynchronize", (pointer,)),
        ):
            function = getattr(self.library, name)
            function.argtypes = arguments
            setattr(self, name, function)
        self.stream = pointer()
        self.cudaStreamCreate(ctypes.byref(self.stream))

    def register(self, name, stub=None):
        """A kernel of that (mangled) name; what comes back stands for its host function. stub: one that another had before."""
        pointer = ctypes.c_void_p
        stub = stub or ctypes.create_string_buffer(16)
        self.library.__getattr__("__cudaRegisterFatBinary").restype = pointer
        handle = self.library.__getattr__("__cudaRegisterFatBinary")(None)
        device_name = ctypes.create_string_buffer(name.encode())
        self.library.__getattr__("__cudaRegisterFunction")(
            pointer(handle), stub, device_name, device_name, -1, None, None, None, None, None
        )
        return stub

    def truth(self):
        sys.stdout.flush()
        self.library.standin_truth_print(ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout"))


class Model:
    def __init__(self, cuda):
        self.cuda = cuda
        self.gemm = cuda.register("_Z11gemm_kernelPf")
        self.relu = cuda.register("_Z11relu_kernelPf")
        self.device = ctypes.c_void_p(0x7F0000100000)
        self.batch = ctypes.create_string_buffer(65536)
        self.labels = ctypes.create_string_buffer(1024)

    def launch(self, kernel):
        self.cuda.cudaLaunchKernel(kernel, Dim3(64, 1, 1), Dim3(256, 1, 1), None, 0, self.cuda.stream)


def dataloader(model):
    cuda = model.cuda
    cuda.cudaMemcpy(model.device, model.batch, len(model.batch), HOST_TO_DEVICE)
    cuda.cudaMemcpy(model.device, model.labels, len(model.labels), HOST_TO_DEVICE)


def forward(model):
    workspace = ctypes.c_void_p()
    model.cuda.cudaMalloc(ctypes.byref(workspace), 1 << 20)
    for _ in range(4):
        model.launch(model.gemm)
        model.launch(model.relu)
    model.cuda.cudaFree(workspace)


def backward(model):
    for _ in range(6):
        model.launch(model.relu)
        model.launch(model.gemm)


def item(model):
    loss = ctypes.c_float()
    model.cuda.cudaMemcpyAsync(ctypes.byref(loss), model.device, 4, DEVICE_TO_HOST, model.cuda.stream)
    model.cuda.cudaStreamSynchronize(model.cuda.stream)
    return loss.value


def iteration(model):
    dataloader(model)
    forward(model)
    backward(model)
    return item(model)


def main():
    iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    os.environ.setdefault("STANDIN_CUDA", LATENCIES)
    model = Model(Cuda(sys.argv[1]))
    print("ready", flush=True)
    if len(sys.argv) <= 3 or sys.argv[3] == "stdin":
        sys.stdin.read(1)
    for _ in range(iterations):
        iteration(model)
    model.cuda.truth()


if __name__ == "__main__":
    main()
