"""PyTorch's own operator samples, forward and backward: run on a device, compared with the CPU."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torchdevice_cuda import contract

#: Results that the operator leaves undefined: uninitialised memory.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
_ROWS = contract.read_operators()
#: Whose results a GPU gives in other shapes, which the set operators of tools/record has, or takes others of equal
#: elements for: tests/native/test_ties.py has those.
OTHERWISE = {"native_batch_norm", "_native_batch_norm_legit", *(name for name, row in _ROWS.items() if "ties" in row)}
#: Whose results a GPU lays out otherwise than the CPU; the set operators has those, too. What a processor's library
#: of Fourier transforms does is its own affair.
LAID_OUT = {f"fft.{way}fft{dims}" for way in ("", "i", "r", "ir", "h", "ih") for dims in ("", "2", "n")} | {
    "linalg.eig",
    "linalg.svd",
    "nn.functional.scaled_dot_product_attention",
    "nonzero_static",
    "pca_lowrank",
    "svd",
    "svd_lowrank",
}
NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}
WIDE = {narrow: wide for wide, narrow in NARROW.items()}
#: What a GPU computes in float32, whatever the CPU's kernels do, or where they refuse.
HALVES = (torch.float16, torch.bfloat16)
#: Operators with results that a GPU keeps in float32: statistics.
STATISTICS = {
    name
    for name, row in _ROWS.items()
    if isinstance(row.get("widened"), dict) and "w" in row["widened"].get("results", "")
}

Outcome = tuple[list[Any], list[Any]]


@dataclasses.dataclass(frozen=True)
class Device:
    """A device as these samples see it."""

    #: what a tensor says that is on it
    type: str
    #: whether an error of its is no failure, but a refusal
    refuses: Callable[[BaseException], bool] = lambda error: False
    #: whether its results are laid out as the CPU's
    strides: bool = False
    #: whether float64 becomes float32 on it
    narrows: bool = False
    #: whether its operators are made of the very ones that the CPU's are made of
    alike: bool = False


class Refused(Exception):
    """The device said that it does not have this."""


def checking(options: argparse.Namespace, device: Device) -> Callable[[Any], dict[str, Any]]:
    """Return the check that goes through the operators, as the command line of ``op_sweep`` says."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)

    def one(op: Any) -> dict[str, Any]:
        status, detail = check(op, dtype, options.samples, device)
        return {"status": status, "detail": detail}

    return one


def check(op: Any, dtype: torch.dtype, count: int, device: Device) -> tuple[str, str]:
    """("pass" | "fail" | "skip" | "refused", why) for one operator."""
    widens = device.alike and dtype in HALVES
    if not widens and dtype not in op.supported_dtypes("cpu"):
        return "skip", "no CPU kernel for the dtype"
    if device.alike and dtype not in op.supported_dtypes(device.type):
        return "skip", "the device has no kernel for the dtype"
    if device.alike and op.name in OTHERWISE:
        return "skip", "a GPU's results are otherwise"
    grads = op.supports_autograd and dtype in op.supported_backward_dtypes(device.type if widens else "cpu")
    try:
        torch.manual_seed(0)
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grads), count))
    except Exception as error:
        return "skip", f"no samples: {error}"[:300]
    compared = 0
    for number, sample in enumerate(samples):
        known = sample.transform(_in(torch.float32, dtype)) if widens else sample
        try:
            expected = run(op, known, "cpu", grads)
            others = [run(op, known, "cpu", grads, seed) for seed in (1, 2, 3)]
        except Exception:  # what the CPU cannot do is not asked of the device
            continue
        exact = op.name not in UNDEFINED and all(same(expected, other) for other in others)
        expected = sure(op, known, grads, expected)
        try:
            got, values = _on(device, op, sample, grads), expected
            if widens:
                own = _own(op, sample, grads)
                values = halved(expected, got, own, dtype, op.name in STATISTICS)
                expected = own or expected
            there = dataclasses.replace(device, strides=False) if op.name in LAID_OUT else device
            compare(expected, got, there, exact, values)
        except Refused as error:
            return "refused", str(error)[:300]
        except Exception as error:
            return "fail", f"sample {number}: {type(error).__name__}: {error}"[:1000]
        compared += 1
    return ("pass", f"{compared} samples") if compared else ("skip", "no sample passes on the CPU")


def _in(wide: torch.dtype, narrow: torch.dtype) -> Callable[[Any], Any]:
    """Return a function that widens tensors and dtype arguments."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype == narrow:
            return value.detach().to(wide).requires_grad_(value.requires_grad)
        return wide if value is narrow else value

    return widen


def _own(op: Any, sample: Any, grads: bool) -> Outcome | None:
    """Return the CPU kernels' result in half precision, if they take it."""
    try:
        return run(op, sample, "cpu", grads)
    except Exception:
        return None


def halved(expected: Outcome, got: Outcome, own: Outcome | None, dtype: torch.dtype, statistics: bool) -> Outcome:
    """Round a float32 result to half precision.

    An operator that is made of others rounds in between, on a GPU too. So where the CPU's kernels are further from what
    is true, and the device not as far, what the device gives will do.
    """

    def one(wide: Any, have: Any, near: Any) -> Any:
        if not isinstance(wide, torch.Tensor) or not isinstance(have, torch.Tensor):
            return wide
        narrow = {torch.float32: dtype, torch.complex64: torch.complex32}.get(wide.dtype, wide.dtype)
        if near is not None:
            narrow = near.dtype
        if statistics and have.dtype == wide.dtype:
            narrow = wide.dtype
        rounded = wide.to(narrow)
        if near is None or narrow not in HALVES or (have.dtype, have.shape) != (narrow, wide.shape):
            return rounded
        if wide.layout is not torch.strided or wide.device.type != "cpu":
            return rounded
        there = have.detach().cpu()
        no_further = (there - wide).abs() <= (near - wide).abs()
        return torch.where(no_further | (there.isnan() & near.isnan()), there, rounded)

    parts: list[list[Any]] = []
    for place in (0, 1):
        nears = own[place] if own is not None and len(own[place]) == len(expected[place]) else None
        parts.append(
            [
                one(wide, have, nears[i] if nears else None)
                for i, (wide, have) in enumerate(zip(expected[place], got[place], strict=False))
            ]
        )
    return parts[0], parts[1]


def sure(op: Any, sample: Any, grads: bool, expected: Outcome) -> Outcome:
    """Return the CPU's result; if it is NaN and the one in double precision is not, the latter, rounded.

    The gradient of renorm compares a norm taken in double precision with elements that are not, and divides by their
    number.
    """
    if not _nan(expected):
        return expected

    def widen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(WIDE.get(value.dtype, value.dtype)).requires_grad_(value.requires_grad)

    try:
        wide = run(op, sample.transform(widen), "cpu", grads)
    except Exception:  # not every operator has that dtype
        return expected
    if _nan(wide):
        return expected
    pairs = zip((*expected[0], *expected[1]), (*wide[0], *wide[1]), strict=True)
    rounded = [w.to(e.dtype) if isinstance(e, torch.Tensor) else e for e, w in pairs]
    return rounded[: len(expected[0])], rounded[len(expected[0]) :]


def _nan(outcome: Outcome) -> bool:
    tensors = (value for part in outcome for value in part if isinstance(value, torch.Tensor))
    return any(bool(t.isnan().any()) for t in tensors if t.layout is torch.strided)


def _on(device: Device, op: Any, sample: Any, grads: bool) -> Outcome:
    """Run on the device, with its refusals told from its failures."""
    try:
        return run(op, sample, device.type, grads)
    except Exception as error:
        if device.refuses(error):
            raise Refused(str(error)) from error
        raise


def run(op: Any, sample: Any, device: str, grads: bool, seed: int = 0) -> Outcome:
    """The outputs and the inputs' gradients, on a device."""
    leaves: list[torch.Tensor] = []

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to(device, copy=True)
            if value.requires_grad:
                moved.requires_grad_()
                leaves.append(moved)
            return moved
        return device if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu") else value

    # This one takes its indices on the CPU, wherever the tensor is.
    arguments = sample.args if op.name == "tensor_split" else tree_map(move, sample.args)
    # Samples of random operators fix the seed themselves; move it along, so that they can be told from the others.
    reseed = torch.manual_seed
    torch.manual_seed = lambda given: reseed(given + seed)
    torch.manual_seed(0)
    try:
        result = op(tree_map(move, sample.input), *arguments, **tree_map(move, sample.kwargs))
        outputs = tree_leaves(sample.output_process_fn_grad(result))
        wanted = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        gradients: list[Any] = []
        if grads and wanted and leaves:
            ones = [torch.ones_like(t) for t in wanted]
            gradients = list(torch.autograd.grad(wanted, leaves, ones, allow_unused=True))
    finally:
        torch.manual_seed = reseed
    return outputs, gradients


def same(one: Outcome, other: Outcome) -> bool:
    """Return whether two CPU runs with different seeds agree; if not, the operator is random."""
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except (AssertionError, TypeError):
        return False
    return True


def tolerance(expected: torch.Tensor, device: Device) -> dict[str, float]:
    """Return the tolerance of a result; without one, torch's own."""
    dtype = expected.dtype
    if device.narrows and dtype in NARROW:
        return {"rtol": 2e-3, "atol": 2e-3}  # computed in half the precision
    if dtype in (*HALVES, torch.complex32):
        # An operator made of others than on the CPU rounds its results a few times more, by half an epsilon each, and
        # what adds up has the error of the largest.
        close = 4 * torch.finfo(dtype).eps
        finite = expected.to(torch.complex64 if dtype is torch.complex32 else torch.float32).abs()
        finite = finite[finite.isfinite()] if expected.layout is torch.strided else finite.to_dense()
        return {"rtol": close, "atol": close * max(1.0, finite.max().item() if finite.numel() else 0.0)}
    return {} if device.alike else {"rtol": 1e-4, "atol": 1e-4}


def compare(expected: Outcome, got: Outcome, device: Device, exact: bool, values: Outcome) -> None:
    """AssertionError unless ``got`` is ``expected``, on the device, in a precision that the device has.

    ``values`` are expected, too: what they are and how precise. It is the same unless that was computed otherwise.
    """
    for what, want, value, have in (
        ("output", expected[0], values[0], got[0]),
        ("gradient", expected[1], values[1], got[1]),
    ):
        assert len(want) == len(have), f"{len(have)} {what}s, not {len(want)}"
        for w, v, h in zip(want, value, have, strict=True):
            if not isinstance(w, torch.Tensor):
                if exact and not isinstance(w, str):
                    assert type(w) is type(h), f"{what}: {h!r} is not {w!r}"
                continue
            assert h.device.type == device.type, f"{what} is on {h.device}"
            dtype = NARROW.get(v.dtype, v.dtype) if device.narrows else v.dtype
            assert (w.shape, dtype, w.layout) == (h.shape, h.dtype, h.layout), f"{what}: {h.shape} {h.dtype} {h.layout}"
            if w.layout == torch.strided and device.strides:
                assert w.stride() == h.stride() or w.numel() <= 1, f"{what}: strides {h.stride()}, not {w.stride()}"
            if exact:
                close = tolerance(v, device)
                torch.testing.assert_close(h.cpu(), v.cpu().to(dtype), equal_nan=True, check_stride=False, **close)
