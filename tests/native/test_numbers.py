"""Numbers beside half precision: CUDA does not round them first, and what an H200 made of them is made here."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn import functional

RECORD = Path(__file__).parents[1] / "data" / "numbers-h200.json.xz"
HALVES = (torch.float16, torch.bfloat16)
NUMBERS = (0.42, -0.1, 3.3, 1e-5, 1 / 3, 2.7, 1e-3, 1.0001, 1e-8, 0.7)
TWO = ("add", "sub", "mul", "div", "floor_divide", "pow", "xlogy", "fmod", "eq", "lt", "hypot")
WINDOWS = ("blackman", "hamming", "hann", "bartlett", "kaiser")

Call = Callable[[], Any]


def outcome(call: Call) -> Any:
    """What came of a call, to the last digit."""
    try:
        made = call()
    except Exception as error:
        return [type(error).__name__, str(error)[:110]]
    tensors = made if isinstance(made, (list, tuple)) else [made]
    return [[str(one.dtype), [repr(value) for value in one.double().flatten().tolist()]] for one in tensors]


def forms(number: float) -> dict[str, Any]:
    """A number as a program may have it."""
    tensors = {
        f"{place} {str(dtype)[6:]}": torch.tensor(number, dtype=dtype, device=place)
        for place in ("cpu", "cuda")
        for dtype in (torch.float32, torch.float64)
    }
    return {"number": number, **tensors}


def alone(x: torch.Tensor, y: torch.Tensor, n: float) -> dict[str, Call]:
    """Where a number can only be a number."""
    positive = x.abs() + torch.tensor(0.01, dtype=x.dtype, device="cuda")
    return {
        "rsub": lambda: torch.rsub(x, n),
        "add_": lambda: x.clone().add_(n),
        "sub_": lambda: x.clone().sub_(n),
        "mul_": lambda: x.clone().mul_(n),
        "div_": lambda: x.clone().div_(n),
        "add alpha": lambda: torch.add(x, y, alpha=n),
        "sub alpha": lambda: torch.sub(x, y, alpha=n),
        "lerp": lambda: torch.lerp(x, y, n),
        "logit": lambda: torch.logit(positive.clamp(0, 1), 1e-2),
        "softshrink": lambda: functional.softshrink(x, abs(n)),
        "_foreach_add": lambda: torch._foreach_add([x], n),
        "_foreach_add list": lambda: torch._foreach_add([x], [n]),
        "_foreach_add_": lambda: torch._foreach_add_([made := x.clone()], n) or made,
        "_foreach_add alpha": lambda: torch._foreach_add([x], [y], alpha=n),
        "_foreach_sub": lambda: torch._foreach_sub([x], n),
        "_foreach_mul": lambda: torch._foreach_mul([x], n),
        "_foreach_div": lambda: torch._foreach_div([x], n),
        "_foreach_pow": lambda: torch._foreach_pow([positive], n),
        "addcmul": lambda: torch.addcmul(x, y, y, value=n),
        "threshold": lambda: torch.threshold(x, n, n),
    }


def calls() -> Iterator[tuple[str, Call]]:
    """All of them, by name."""
    for dtype in HALVES:
        kind = str(dtype)[6:]
        for n in NUMBERS:
            drawn = torch.randn(5, generator=torch.Generator().manual_seed(3))
            x = torch.cat([torch.tensor([n, -n, 1.0, 0.5, -0.25]), drawn]).to(dtype).cuda()
            for name in TWO:
                function, given = getattr(torch, name), x.abs() if name in ("pow", "xlogy") else x
                for form, number in forms(n).items():
                    yield f"{kind} {name} {n} {form}", lambda f=function, x=given, n=number: f(x, n)
                    yield f"{kind} {n} {name} {form}", lambda f=function, x=given, n=number: f(n, x)
            for name, call in alone(x, x.flip(0), n).items():
                yield f"{kind} {name} {n}", call
        for window in WINDOWS:
            for periodic in (True, False):
                made = getattr(torch, f"{window}_window")
                yield (
                    f"{kind} {window} {periodic}",
                    lambda make=made, p=periodic, d=dtype: make(7, periodic=p, dtype=d, device="cuda"),
                )


@child(VIRTUAL)
@pytest.mark.parametrize("kind", [str(dtype)[6:] for dtype in HALVES])
def test_as_on_an_h200(kind: str) -> None:
    record = json.loads(lzma.decompress(RECORD.read_bytes()))["answers"]
    found = {name: outcome(call) for name, call in calls() if name.startswith(kind)}
    assert len(found) > 1000
    wrong = {name: (record[name], made) for name, made in found.items() if made != record[name]}
    assert not wrong, (len(wrong), dict(list(wrong.items())[:5]))


@child(VIRTUAL)
@pytest.mark.parametrize("kind", [str(dtype)[6:] for dtype in HALVES])
def test_sums_of_every_half_are_rounded_once(kind: str) -> None:
    """In one pass, with a rest that fills no vector, in whatever order elements lie."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(getattr(torch, kind))
    for x in (every, every[3:-2], every.view(256, 256).t(), every[::2]):
        there, wide = x.cuda(), x.float()
        for n in (0.42, -65504.7, 1e-8, float("inf")):
            number = torch.tensor(n, dtype=torch.float32)
            for made, wanted in (
                (there + n, wide + number),
                (there - n, wide - number),
                (n - there, number - wide),
                (torch.add(number, there), wide + number),
                (there.clone().sub_(n), wide - number),
            ):
                assert made.stride() == torch.empty_like(there).stride()
                assert torch.equal(made.cpu().nan_to_num(7.0), wanted.to(x.dtype).nan_to_num(7.0)), n


if __name__ == "__main__":
    # On a GPU, with the name of the record to be written.
    import sys

    answers = {name: outcome(call) for name, call in calls()}
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    with lzma.open(sys.argv[1], "wt") as record:
        json.dump({**about, "answers": answers}, record)
