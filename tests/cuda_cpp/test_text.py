"""The text that NVRTC returns to PyTorch releases that request PTX; they read it up to the first zero."""

from __future__ import annotations

import ctypes

from torchdevice_cuda.cuda_cpp.compiled import Rtc, Runtime

SOURCE = b'extern "C" __global__ void twice(int* x) { x[threadIdx.x] *= 2; }'


def test_a_library_goes_through_a_c_string() -> None:
    rtc, driver = Rtc(), Runtime()
    program, size, module, function = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_void_p()
    assert rtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"twice.cu", 0, None, None) == 0
    assert rtc.nvrtcCompileProgram(program, 0, []) == 0
    assert rtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    text = ctypes.create_string_buffer(size.value)
    assert rtc.nvrtcGetPTX(program, text) == 0
    assert len(text.value) == size.value - 1
    assert driver.cuModuleLoadData(ctypes.byref(module), text.value) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"twice") == 0
    numbers = (ctypes.c_int * 4)(1, 2, 3, 4)
    pointer = ctypes.c_void_p(ctypes.addressof(numbers))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    assert driver.cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, None, arguments, None) == 0
    assert list(numbers) == [2, 4, 6, 8]
