"""Limits that show at run time: recognised by the table, remembered, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from torchdevice_cuda.drivers import refusals

COMPATIBILITY = [
    (
        NotImplementedError("The operator 'aten::mode' is not currently implemented for the MPS device. If you"),
        "no kernel",
    ),
    (
        TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."),
        "no float64",
    ),
    (
        TypeError("Trying to convert ComplexDouble to the MPS backend but it does not have support for that dtype."),
        "no float64",
    ),
    (
        TypeError("Trying to convert Float8_e4m3fn to the MPS backend but it does not have support for that dtype."),
        "no such dtype",
    ),
    (RuntimeError("MPS: cumsum for int64 is not supported before macOS 13.3"), "no such dtype"),
    (RuntimeError("Undefined type BFloat16"), "no such dtype"),
    (RuntimeError("Failed to create function state object for: cat_int64_t_bfloat"), "no such dtype"),
    (RuntimeError("Output channels > 65536 not supported at the MPS device."), "a limit of Metal"),
]
GENERAL = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    RuntimeError("MPS backend out of memory (MPS allocated: 1.00 GB, max allowed: 2.00 GB). Tried to allocate 3.00 GB"),
    RuntimeError("Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"),
    TypeError("sum() received an invalid combination of arguments"),
    IndexError("The operator 'aten::mode' is not currently implemented for the MPS device"),
    ValueError("Undefined type BFloat16"),
]


@pytest.mark.parametrize("error, kind", COMPATIBILITY)
def test_refusals(error: Exception, kind: str) -> None:
    assert refusals.refusal(error) == kind


@pytest.mark.parametrize("error", GENERAL, ids=str)
def test_errors_of_the_program(error: Exception) -> None:
    assert refusals.refusal(error) is None


def test_a_refusal_is_tried_once(on_mps: Callable) -> None:
    body = """
    from torchdevice_cuda.fallback.guards import Guard
    asked, left = [], []
    def sort(x, dim=-1, out=None):
        asked.append(str(x.device.type))
        if torch._C.TensorBase.is_mps.__get__(x) and x.dtype is torch.int64:
            raise RuntimeError("MPS: sort for int64 is not supported")
        if dim > 3:
            raise RuntimeError("dim out of range")
        return torch._C._VariableFunctions.sort(x, dim, out=out)
    guarded = Guard(torch.device("mps", 0), lambda *row: left.append(row)).function("sort", sort)
    x = torch.tensor([3, 1, 2], device="cuda")
    first, second = guarded(x), guarded(x)
    out = (torch.empty(0, dtype=torch.int64, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda"))
    guarded(x, out=out)
    floats = guarded(x.float())
    try:
        guarded(x.float(), 7); error = None
    except RuntimeError as raised:
        error = str(raised)
    result = [asked, left, first.values.tolist(), second.indices.tolist(), first.values.is_cuda, type(first).__name__,
              out[0].tolist(), floats.values.tolist(), error]
    """
    asked, left, values, indices, on_gpu, kind, out, floats, error = on_mps(body)
    assert asked == ["cuda", "cpu", "cpu", "cpu", "cuda", "cuda"]
    assert left == [["sort", "CPU", "no such dtype"]] * 3
    assert (values, indices, out, floats) == ([1, 2, 3], [1, 2, 0], [1, 2, 3], [1, 2, 3]) and on_gpu
    assert kind == "sort" and error == "dim out of range"
