"""Numbers beside half precision: CUDA does not round them first. Results to the last digit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

RECORD = "numbers-h200.json.xz"
LISTED_ON_DEVICE = True
HALVES = (torch.float16, torch.bfloat16)
NUMBERS = (0.42, -0.1, 3.3, 1e-5, 1 / 3, 2.7, 1e-3, 1.0001, 1e-8, 0.7)
TWO = ("add", "sub", "mul", "div", "floor_divide", "pow", "xlogy", "fmod", "eq", "lt", "hypot")
WINDOWS = ("blackman", "hamming", "hann", "bartlett", "kaiser")

Call = Callable[[], Any]


def outcome(call: Call) -> Any:
    """Return a call's result to the last digit."""
    try:
        made = call()
    except Exception as error:
        return [type(error).__name__, str(error)[:110]]
    tensors = made if isinstance(made, (list, tuple)) else [made]
    return [[str(one.dtype), [repr(value) for value in one.double().flatten().tolist()]] for one in tensors]


def forms(number: float) -> dict[str, Any]:
    """Return a number as a program may have it."""
    tensors = {
        f"{place} {str(dtype)[6:]}": torch.tensor(number, dtype=dtype, device=place)
        for place in ("cpu", "cuda")
        for dtype in (torch.float32, torch.float64)
    }
    return {"number": number, **tensors}


def alone(x: torch.Tensor, y: torch.Tensor, n: float) -> dict[str, Call]:
    """Return the calls that accept only a Python scalar."""
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


def list_cases() -> dict[str, Call]:
    return {name: partial(outcome, call) for name, call in calls()}
