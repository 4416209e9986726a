"""Summaries of calls, and their comparison."""

from __future__ import annotations

import re
import types
from typing import Any

#: Tensors with more elements are told by sums of theirs.
FEW = 64
#: Fewer numbers than these have no range to compare.
SEVERAL = 6
#: What differs from run to run in a text, and what a device is called.
ADDRESS = re.compile(r"0x[0-9a-f]+")
BUILD = re.compile(r' at "/.*|(?<=abstract class )(\w+) with.*|, please report.*')
INSTALLED = re.compile(r"(?<= from )['\"][^'\"]*['\"]?")
#: Where in a file something is: files change.
LINE = re.compile(r"(?<=\.py:)\d+(:\d+)?|(?<=\", line )\d+")
#: And where the checkout is.
CHECKOUT = re.compile(r"[^\s\"]*/(?=tools/catalog/)")
PLACE = re.compile(r"\b(cuda|mps|cpu)(:0)?\b", re.IGNORECASE)
#: Addresses, handles and seeds are larger: which they are says nothing.
LARGE = 2**32
#: A function's summary. What others tied to it was in older records.
FUNCTION = ["object", "function"]
#: So many parts of a collection are told.
MOST = 8
#: A tensor's summary begins with this.
TENSOR = "tensor"


def number(x: float) -> Any:
    return float(f"{x:.6g}") if x == x and abs(x) < 1e30 else str(x)


def shown_as(value: Any) -> type:
    """A tensor's class; of one that stands for torch's own where a device has none of its kind, the class it is of."""
    return next(each for each in type(value).__mro__ if not each.__module__.startswith("torchdevice_cuda."))


def of_tensor(value: Any) -> list[Any]:
    """Dtype, shape, layout, place, and numbers: all of them, or how many, their sums and the ends of their range."""
    import torch

    if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        return [TENSOR, str(value.dtype)[6:], "none yet", value.device.type, type(value).__name__]
    shape = "nested" if value.is_nested else [int(x) for x in value.shape]
    kept = [TENSOR, str(value.dtype)[6:], shape, value.device.type]
    plain = value.detach()
    kind = shown_as(value)
    if kind not in (torch.Tensor, torch.nn.Parameter) or value.is_nested or value.device.type == "meta":
        return [*kept, kind.__name__]
    if plain.layout is not torch.strided:
        plain = plain.cpu().to_dense()
    if plain.is_quantized:
        plain = plain.cpu().int_repr()
    there = plain.cpu()
    there = torch.view_as_real(there.resolve_conj()).flatten() if there.is_complex() else there.flatten()
    wide = there.double()
    if wide.numel() <= FEW:
        return [*kept, [number(x) for x in wide.tolist()]]
    return [*kept, {"sums": [number(float(x)) for x in (wide.sum(), wide.abs().sum(), wide.min(), wide.max())]}]


def text(value: str) -> str:
    """Return a text without what differs from run to run, whatever device it names."""
    value = CHECKOUT.sub("", value)
    return PLACE.sub("<device>", INSTALLED.sub("<path>", ADDRESS.sub("<address>", value)))


def summary(value: Any, depth: int = 0) -> Any:
    """Summarize a result: types, shapes, dtypes, devices and numbers."""
    import torch

    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if type(value).__name__ in ("dtype", "layout", "Size", "memory_format"):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return text(value) if len(value) < 200 else "a long text"
    if isinstance(value, torch.device):
        return ["device", value.type]
    if depth < 4 and isinstance(value, (list, tuple)):
        return [type(value).__name__, *(summary(part, depth + 1) for part in list(value)[:MOST])]
    if depth < 4 and isinstance(value, dict):
        return ["dict", *([text(str(key))[:80], summary(part, depth + 1)] for key, part in list(value.items())[:MOST])]
    # What others have tied to a function or a class is none of its own.
    held = vars(value) if hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType)) else {}
    if isinstance(value, torch.nn.Module):
        held = dict(list(value.state_dict().items())[:8])
    tensors = [[name, of_tensor(part)] for name, part in list(held.items())[:32] if isinstance(part, torch.Tensor)]
    return ["object", type(value).__name__, *tensors[:8]]


def failure(error: BaseException) -> str:
    """Return an error's type and words."""
    first = str(error).strip().splitlines()[:1]
    return text(f"{type(error).__name__}: {first[0] if first else ''}"[:240])


def words(error: str | None) -> str | None:
    """Return an error less what depends on the build or on the release of Python."""
    return error and BUILD.sub("", error)


def is_tensor(a: Any) -> bool:
    return isinstance(a, list) and len(a) > 3 and a[0] == TENSOR  # shorter: an attribute of that name


def close(
    a: Any, b: Any, *, drawn: bool = False, kinds: bool = False, signs: bool = True, written: bool = True
) -> bool:
    """Return whether two summaries are equal on any devices, with numbers within the tolerance of kernels.

    Numbers that were drawn at random, or differ from run to run, are compared by dtype, shape and range. With
    ``kinds``, of what is no tensor the kind is compared alone; without ``signs``, numbers by their absolute values; and
    what was never ``written``, not at all.
    """
    also: dict[str, Any] = {"drawn": drawn, "kinds": kinds, "signs": signs, "written": written}
    if is_tensor(a) and is_tensor(b) and not written:
        return bool(a[1:3] == b[1:3])
    if is_tensor(a) and is_tensor(b):
        return a[1:3] == b[1:3] and (within(a[4], b[4]) if drawn else alike(a[4], b[4], signs))
    if kinds and isinstance(a, (bool, int, float, str)):
        return isinstance(b, (bool, int, float, str))
    if is_number(a) and is_number(b):
        return drawn or min(abs(a), abs(b)) >= LARGE or abs(a - b) <= 1e-4 + 2e-3 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        if a[:1] == ["device"] == b[:1] or a[:2] == FUNCTION == b[:2]:
            return True
        if (drawn or kinds) and a[:1] == b[:1] in (["dict"], ["list"]):
            return all(close(x, y, **also) for x, y in zip(a[1:2], b[1:2], strict=False))
        return len(a) == len(b) and all(close(x, y, **also) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        a, b = (LINE.sub("", each) for each in (a, b))
    return bool(a == b) or drawn and type(a) is type(b)


def is_number(a: Any) -> bool:
    return isinstance(a, (int, float)) and not isinstance(a, bool)


def alike(a: Any, b: Any, signs: bool = True) -> bool:
    """Return whether the numbers of two tensors are equal, as far as a GPU's matrix units compute them alike."""
    if isinstance(a, dict) and isinstance(b, dict):
        # Sums of many: what cancels in the first is known no better than the second.
        room = 1e-3 + 2e-3 * max((abs(x) for x in (*a["sums"], *b["sums"]) if is_number(x)), default=0.0)
        pairs = zip(a["sums"], b["sums"], strict=True)
        return all(x == y or is_number(x) and is_number(y) and abs(x - y) <= room for x, y in pairs)
    if not isinstance(a, list) or not isinstance(b, list):
        return bool(a == b)
    room = 1e-4 + 2e-3 * max((abs(x) for x in (*a, *b) if is_number(x)), default=0.0)

    def fits(x: Any, y: Any) -> bool:
        if not (is_number(x) and is_number(y)):
            return bool(x == y)
        return abs(x - y) <= room or not signs and abs(x + y) <= room

    return len(a) == len(b) and all(map(fits, a, b))


def within(a: Any, b: Any) -> bool:
    """Return whether drawn numbers are in a reference's range, widened by three times its range and size.

    Of some, those at the ends are left out: where tails are heavy, one of a few is far from the others.
    """
    ends = []
    for each in (a, b):
        some = each["sums"][2:] if isinstance(each, dict) else each if isinstance(each, list) else []
        some = [x for x in some if isinstance(x, (int, float))]
        if isinstance(each, list) and len(some) < SEVERAL:
            return True  # too few to have a range
        if isinstance(each, list):
            some = sorted(some)[len(some) // SEVERAL : len(some) - len(some) // SEVERAL]
        ends.append((min(some), max(some)) if some else (0.0, 0.0))
    (low, high), (least, most) = ends
    room = 3 * (high - low) + 3 * max(abs(low), abs(high)) + 5
    return abs(low - least) <= room and abs(high - most) <= room


def places(a: Any) -> list[str]:
    """Return the devices of a result's tensors, and the devices that it names."""
    if is_tensor(a):
        return [a[3]]
    if isinstance(a, list) and a[:1] == ["device"] and isinstance(a[1], str):  # and no entry of a dictionary's
        return [a[1]]
    if isinstance(a, list) and a[:2] == FUNCTION:
        return []
    return [place for part in a for place in places(part)] if isinstance(a, list) else []


def same(
    a: dict[str, Any],
    b: dict[str, Any],
    *,
    drawn: bool = False,
    kinds: bool = False,
    signs: bool = True,
    written: bool = True,
    ordered: bool = True,
) -> bool:
    """Return whether two calls have the same error or the same result."""
    if "error" in a or "error" in b:
        return words(a.get("error")) == words(b.get("error"))
    first, second = (each["result"] if ordered else in_order(each["result"]) for each in (a, b))
    return close(first, second, drawn=drawn or a["drawn"] or b["drawn"], kinds=kinds, signs=signs, written=written)


def in_order(result: Any) -> Any:
    """Return a collection that has no order of its own; of one that was cut off, how much there is."""
    if not isinstance(result, list) or len(result) > MOST:
        return [result[0], len(result)] if isinstance(result, list) else result
    return [*result[:1], *sorted(result[1:], key=str)]
