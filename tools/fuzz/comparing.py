"""Comparison of the results of two sides."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol

import torch
from program import Step
from sides import HALVES, OF_GRADIENTS, Failed, Observation, Outcome

#: How far apart two values may be, as a part of the largest of their tensor.
_CLOSE = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 4 * torch.finfo(torch.float16).eps,
    torch.bfloat16: 4 * torch.finfo(torch.bfloat16).eps,
}
_SUMS = (
    "inner",
    "matmul",
    "mm",
    "bmm",
    "mv",
    "dot",
    "vdot",
    "addmm",
    "baddbmm",
    "addmv",
    "einsum",
    "linear",
    "tensordot",
)
#: Compared after kind, dtype and shape.
FIELDS = ("stride", "offset", "flags", "version", "aliases")


class Truth(Protocol):
    """Gives the values in float32 of a variable in half precision, if it can."""

    #: of a program that differentiates, the dtype of the least precision
    coarsest: torch.dtype | None

    def __call__(self, name: str) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Difference:
    """In what two sides differ."""

    #: error, kind, dtype, shape, stride, offset, flags, version, aliases, values
    field: str
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field} of {self.name}: {self.detail}" if self.name else f"{self.field}: {self.detail}"


def compare(reference: Outcome, device: Outcome, step: Step, truth: Truth) -> list[Difference]:
    """List what differs after a step."""
    if isinstance(reference, Failed) or isinstance(device, Failed):
        return _compare_errors(reference, device)
    found = []
    for name, expected in reference.items():
        got = device.get(name)
        if got is None:
            found.append(Difference("kind", name, "missing on the device"))
            continue
        found += _compare_one(name, expected, got, step, truth)
    return found


def _compare_errors(reference: Outcome, device: Outcome) -> list[Difference]:
    if isinstance(reference, Failed) and isinstance(device, Failed):
        if reference.kind == device.kind or {reference.kind, device.kind} <= {"RuntimeError", "NotImplementedError"}:
            return []
        return [Difference("error", "", f"reference {_text(reference)}; device {_text(device)}")]
    return [Difference("error", "", f"reference {_text(reference)}; device {_text(device)}")]


def _text(outcome: Outcome) -> str:
    if isinstance(outcome, Failed):
        return f"raises {outcome.kind}: {outcome.message}"
    parts = [f"{seen.dtype or seen.kind}{list(seen.shape)}" for seen in list(outcome.values())[:3]]
    return f"computes {', '.join(parts)}"


def _compare_one(name: str, expected: Observation, got: Observation, step: Step, truth: Truth) -> list[Difference]:
    for field in ("kind", "dtype", "shape"):
        if getattr(expected, field) != getattr(got, field):
            return [Difference(field, name, f"{getattr(got, field)}, reference {getattr(expected, field)}")]
    if expected.kind != "Tensor":
        if expected.values == got.values or (expected.values != expected.values and got.values != got.values):
            return []
        return [Difference("values", name, f"{got.values}, reference {expected.values}")]
    found = []
    for field in FIELDS:
        want, have = getattr(expected, field), getattr(got, field)
        if field == "stride":
            want, have = _strides(expected), _strides(got)
        if field == "offset" and 0 in expected.shape:
            continue  # nothing is there
        if field == "flags" and None in (*want, *have):
            continue  # torch fails to say whether it is a leaf
        if want != have:
            found.append(Difference(field, name, f"{have}, reference {want} ({expected.dtype}{list(expected.shape)})"))
    if not step.is_open and (difference := compare_values(name, expected.values, got.values, step, truth)):
        found.append(difference)
    return found


def _strides(seen: Observation) -> tuple[int, ...]:
    """List the strides that mean something."""
    if 0 in seen.shape or not seen.stride:
        return ()
    return tuple(stride for stride, size in zip(seen.stride, seen.shape, strict=True) if size > 1)


def are_identical(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare bit by bit, except that a NaN is a NaN."""
    if torch.equal(one, other):
        return True
    if not (one.is_floating_point() or one.is_complex()):
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def have_same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare, zeros by their signs, too."""
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if not are_identical(one, other):
        return False
    return not one.is_floating_point() or torch.equal(one.signbit() & (one == 0), other.signbit() & (other == 0))


def compare_values(name: str, expected: torch.Tensor, got: torch.Tensor, step: Step, truth: Truth) -> Difference | None:
    """Compare two tensors on the CPU, of one dtype and shape."""
    if are_identical(expected, got):
        return None
    dtype = expected.dtype
    if dtype not in _CLOSE:
        return Difference("values", name, _worst(expected, got))
    close = max(_CLOSE[dtype], _CLOSE.get(truth.coarsest, 0.0))
    # What adds up in half precision may be smaller than its terms.
    is_narrow = dtype in HALVES or truth.coarsest in HALVES
    least = 16.0 if is_narrow and (step.op in OF_GRADIENTS or step.op in _SUMS) else 1.0
    if _is_within(expected, got, close, least):
        return None
    if dtype in HALVES:
        wide = truth(name)
        if isinstance(wide, torch.Tensor) and wide.shape == got.shape:
            wide = wide.detach().cpu().float()
            if _is_within(wide.to(dtype), got, close, least) or _is_nearer(wide, expected, got):
                return None
    return Difference("values", name, _worst(expected, got))


def _is_within(expected: torch.Tensor, got: torch.Tensor, close: float, least: float) -> bool:
    wide = torch.complex128 if expected.is_complex() else torch.float64
    a, b = expected.to(wide), got.to(wide)
    size = a.abs()
    finite = size[size.isfinite()]
    scale = max(least, float(finite.max()) if finite.numel() else 0.0)
    near = (a - b).abs() <= close * scale
    near |= (a == b) | (a.isnan() & b.isnan())
    return bool(near.all())


def _is_nearer(wide: torch.Tensor, expected: torch.Tensor, got: torch.Tensor) -> bool:
    """Tell whether the device is not much further from what float32 gives than the reference."""
    far, own = (got.float() - wide).abs(), (expected.float() - wide).abs()
    limit = own.nan_to_num().max() if own.numel() else own.new_zeros(())
    return bool(((far <= 2 * limit) | (got.isnan() & expected.isnan()) | (got == expected)).all())


def _worst(expected: torch.Tensor, got: torch.Tensor) -> str:
    a, b = expected.reshape(-1), got.reshape(-1)
    differs = ~((a == b) | (a.isnan() & b.isnan())) if a.is_floating_point() or a.is_complex() else a != b
    where = int(differs.nonzero()[0])
    if a.is_floating_point() and differs.sum() > 1:
        distance = (a.double() - b.double()).abs().nan_to_num(math.inf)
        where = int(torch.where(differs, distance, -1).argmax())
    shape = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
    return f"{b[where].item()}, reference {a[where].item()} at {where}, {int(differs.sum())} differ ({shape})"
