"""``torch.cuda.jiterator``: a function of one element, written in CUDA C++, becomes a kernel over tensors.

As PyTorch's own: inputs are promoted to one type and broadcast, results have that type and the layout that an
operator's would have, and numbers given by name are converted to the type of the elements.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..drivers.loans import Loan
from . import compiled
from .leaving import leaving

_C10 = "c10/util/Half.h c10/util/BFloat16.h c10/util/complex.h".split()
_TYPES = {
    torch.bool: "bool",
    torch.uint8: "unsigned char",
    torch.int8: "signed char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long long",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.float32: "float",
    torch.float64: "double",
    torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}
_BLOCK = 256


def _source(code: str, name: str, by_reference: bool, inputs: int, outputs: int, extras: int, element: str) -> str:
    """Return the function, and a kernel that calls it for every element."""
    headers = "".join(f"#include <{header}>\n" for header in _C10)
    given = [f"i{k}[host_cuda_at]" for k in range(inputs)] + [f"T(e{k})" for k in range(extras)]
    results = [f"o{k}[host_cuda_at]" for k in range(outputs)]
    if by_reference:
        call = f"{name}<T>({', '.join([*given, *results])})"
    else:
        call = f"{results[0]} = {name}<T>({', '.join(given)})"
    extra = (
        "double"
        if element not in ("unsigned char", "signed char", "short", "int", "long long", "bool")
        else "long long"
    )
    if "complex" in element:
        extra = "c10::complex<double>"
    parameters = [*(f"const T* i{k}" for k in range(inputs)), *(f"T* o{k}" for k in range(outputs))]
    parameters += [f"{extra} e{k}" for k in range(extras)] + ["long long n"]
    return (
        f"{headers}{code}\n"
        f"using T = {element};\n"
        f'extern "C" __global__ void host_cuda_elements({", ".join(parameters)}) {{\n'
        "  const long long host_cuda_at = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  if (host_cuda_at < n) {{ {call}; }}\n}}\n"
    )


@functools.cache
def _kernel(code: str, name: str, by_reference: bool, inputs: int, outputs: int, extras: int, element: str) -> Any:
    """Compiled once for each type of elements."""
    source = _source(code, name, by_reference, inputs, outputs, extras, element)
    include = Path(torch.__file__).parent / "include"
    try:
        library = compiled.compile_library(source, f"{name}.cu", [], [f"-I{include}"])
    except compiled.CompileError as error:
        raise RuntimeError(f"the jiterator's function {name!r} does not compile for {element}:\n{error}") from error
    runtime, module, function = compiled.Runtime(), ctypes.c_void_p(), ctypes.c_void_p()
    assert runtime.cuModuleLoadData(ctypes.byref(module), library) == 0
    assert runtime.cuModuleGetFunction(ctypes.byref(function), module, b"host_cuda_elements") == 0
    return runtime, function


def _number(value: Any, dtype: torch.dtype) -> list[Any]:
    """Return a number given by name, as the kernel takes it."""
    if dtype.is_complex:
        held = complex(value)
        return [(ctypes.c_double * 2)(held.real, held.imag)]
    if dtype.is_floating_point:
        return [ctypes.c_double(value)]
    return [ctypes.c_longlong(int(bool(value)) if dtype is torch.bool else int(value))]


def _device(tensors: Sequence[torch.Tensor], takes_host: bool) -> torch.device:
    """Return the one that all tensors are on."""
    device = tensors[0].device
    if device.type == "cpu" and not takes_host:
        raise RuntimeError("CUDAGuardImpl initialized with non-CUDA DeviceType: cpu")
    for tensor in tensors:
        if tensor.device != device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{device} and {tensor.device}!"
            )
    return device


def launch(
    code: str,
    name: str,
    by_reference: bool,
    outputs: int,
    tensors: Sequence[torch.Tensor],
    extras: dict[str, Any],
    *,
    takes_host: bool,
) -> Any:
    """Return the result of ``torch._C._cuda_jiterator_compile_and_launch_kernel``.

    ``takes_host``: tensors of the device are the CPU's, so that these are taken.
    """
    from torch._prims_common import compute_elementwise_output_strides

    if not tensors:
        raise RuntimeError(f"the jiterator's function {name!r} was called without a tensor")
    device = _device(tensors, takes_host)
    with torch.no_grad():
        common = functools.reduce(torch.promote_types, [torch.result_type(a, b) for a in tensors for b in tensors])
        wide = torch.broadcast_tensors(*tensors)
        strides = compute_elementwise_output_strides(*wide)

        def made() -> torch.Tensor:
            # As the dispatcher does it: copies on the host stay there, wherever requests are redirected to.
            make = torch.ops.aten.new_empty_strided.default
            empty: torch.Tensor = make(wide[0], wide[0].shape, strides, dtype=common)
            return empty

        inputs = [
            t if t.dtype == common and t.stride() == strides and t.device == device else made().copy_(t) for t in wide
        ]
        results = [made() for _ in range(outputs)]
        n = results[0].numel()
        if n:
            key = (code, name, by_reference, len(tensors), outputs, len(extras), _TYPES[common])
            runtime, function = _kernel(*key)
            held: list[Any] = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, *results)]
            for value in extras.values():
                held += _number(value, common)
            held.append(ctypes.c_longlong(n))
            addresses = (ctypes.c_void_p * len(held))(*(ctypes.addressof(h) for h in held))
            stream = torch.cuda.current_stream().cuda_stream
            code_returned = runtime.cuLaunchKernel(
                function, (n + _BLOCK - 1) // _BLOCK, 1, 1, _BLOCK, 1, 1, 0, stream, addresses, None
            )
            if code_returned:
                words = ctypes.c_char_p()
                runtime.cuGetErrorString(code_returned, ctypes.byref(words))
                raise RuntimeError(f"CUDA error: {(words.value or b'').decode()}")
    return results[0] if outputs == 1 else tuple(results)


def launch_lent(
    loan: Loan,
    code: str,
    name: str,
    by_reference: bool,
    outputs: int,
    tensors: Sequence[torch.Tensor],
    extras: dict[str, Any],
) -> Any:
    """Launch on the host, if the GPU has memory of its own: it is lent, and results are copied to the GPU."""
    device = _device(tensors, takes_host=False) if tensors else None
    leaving(f"jiterator {name}")
    lent = [loan.tensor(tensor, is_written=False) for tensor in tensors]
    with loan:
        made = launch(code, name, by_reference, outputs, lent, extras, takes_host=True)
    return made.to(device) if outputs == 1 else tuple(one.to(device) for one in made)
