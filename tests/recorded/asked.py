"""Nested tensors, storages of other devices, mixed types, lists: what a GPU takes, and how it refuses others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

RECORD = "asked-h200.json"
LISTED_ON_DEVICE = True
SAID = 150

Call = Callable[[], Any]


def outcome(call: Call) -> Any:
    """Return a call's numbers, or its error message."""
    try:
        made = call()
    except Exception as error:
        return [type(error).__name__, str(error).partition("\n")[0][:SAID]]
    if not isinstance(made, torch.Tensor):
        return str(made)
    if made.is_nested:
        return [str(made.device), *(part.tolist() for part in made.unbind())]
    return [str(made.device), str(made.dtype), made.to_dense().tolist()]


def nested(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Two parts, of two and of three rows."""
    parts = [torch.arange(8).reshape(2, 4), torch.arange(12).reshape(3, 4)]
    return torch.nested.nested_tensor(parts, dtype=dtype, device="cuda")


def rows(width: int = 4, count: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Something for each part, or too much."""
    return torch.arange(2 * count * width, device="cuda").reshape(2, count, width).to(dtype)


def of_nested() -> Iterator[tuple[str, Call]]:
    """Beside tensors that are not, and made of them."""
    flat = torch.nested.nested_tensor([torch.arange(3.0), torch.arange(2.0)], device="cuda")
    each = torch.tensor([[10.0], [20.0]], device="cuda")
    images = torch.nested.nested_tensor([torch.ones(2, 1, 2), torch.ones(2, 2, 1)], device="cuda")
    for name in ("add", "sub", "mul", "div"):
        function = getattr(torch, name)
        yield f"nested {name} rows", lambda f=function: f(nested(), rows())
        yield f"nested {name} flat", lambda f=function: f(flat, each)
        yield (
            f"nested {name} channels",
            lambda f=function: f(images, torch.tensor([2.0, 4.0], device="cuda")[:, None, None]),
        )
        yield f"nested {name} number", lambda f=function: f(flat, torch.tensor(2.0, device="cuda"))
        yield f"nested {name} one", lambda f=function: f(flat, torch.tensor([2.0], device="cuda"))
        yield f"nested {name} two rows", lambda f=function: f(nested(), rows(count=2))
        yield f"nested {name} narrow", lambda f=function: f(nested(), rows(3))
        yield f"nested {name} cpu", lambda f=function: f(nested(), rows().cpu())
        yield f"nested {name} half", lambda f=function: f(nested(), rows(dtype=torch.float16))
        yield f"nested {name} whole", lambda f=function: f(nested(torch.int64), rows(dtype=torch.int64))
        yield f"rows {name} nested", lambda f=function: f(rows(), nested())
    yield "nested add alpha", lambda: torch.add(flat, each, alpha=2)
    yield "nested add_", lambda: flat.clone().add_(each)
    yield "nested transposed", lambda: nested().transpose(1, 2) + rows(2)
    yield "nested sizes", lambda: torch._nested_tensor_size(nested())
    yield "nested strides", lambda: torch._nested_tensor_strides(nested())
    yield (
        "nested of padded",
        lambda: torch._nested_from_padded(torch.ones(2, 3, 4, device="cuda"), torch.tensor([[2, 4], [3, 4]])),
    )
    yield "nested of a tensor", lambda: torch.nested.as_nested_tensor(torch.ones(2, 3, device="cuda"))
    yield "nested squeeze", squeezed


def squeezed() -> torch.Tensor:
    """Return the gradient of a view of a nested tensor."""
    part = torch.ones(2, 1, 3, device="cuda", requires_grad=True)
    made = torch.nested.as_nested_tensor([part, torch.ones(2, 1, 3, device="cuda")]).squeeze(2)
    torch.nested.to_padded_tensor(made, 0).sum().backward()
    assert part.grad is not None
    return part.grad


def of_storages() -> Iterator[tuple[str, Call]]:
    """A storage of another device."""
    for name, (to, of) in {"cpu": ("cpu", "cuda"), "cuda": ("cuda", "cpu"), "same": ("cuda", "cuda")}.items():
        yield f"set_ {name}", lambda to=to, of=of: torch.ones(2, 3, device=to).set_(torch.zeros(3, device=of))
        yield (
            f"set_ {name} storage",
            lambda to=to, of=of: torch.ones(2, 3, device=to).set_(torch.zeros(3, device=of).untyped_storage()),
        )
        yield (
            f"set_ {name} part",
            lambda to=to, of=of: torch.ones(2, device=to).set_(
                torch.zeros(3, device=of).untyped_storage(), 1, (2,), (1,)
            ),
        )


def of_types() -> Iterator[tuple[str, Call]]:
    """Unsigned numbers, products of several types, complex halves, sparse ones."""
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        x = torch.tensor([1, 2, 3], device="cuda").to(dtype)
        for name, call in {
            "* 0.5": lambda x=x: x * 0.5,
            "* x": lambda x=x: x * x,
            "* 2": lambda x=x: x * 2,
            "+ 0.5": lambda x=x: x + 0.5,
            "/ 2": lambda x=x: x / 2,
        }.items():
            yield f"{dtype} {name}", call
    types = (torch.int64, torch.float32, torch.int32, torch.bool)
    for a, b, c in itertools.product(types, types, types):
        x, y, z = (torch.ones(2, 2, 2, device="cuda").to(dtype) for dtype in (a, b, c))
        yield f"baddbmm {a} {b} {c}", lambda x=x, y=y, z=z: torch.baddbmm(x, y, z)
        yield f"addbmm {a} {b} {c}", lambda x=x, y=y, z=z: torch.addbmm(x[0], y, z)
        yield f"addmm {a} {b} {c}", lambda x=x, y=y, z=z: torch.addmm(x[0], y[0], z[0])
    for dtype in (torch.bool, torch.int32, torch.float16, torch.bfloat16, torch.float32):
        some = torch.tensor([[1, 0, 1], [0, 1, 0]], device="cuda").to(dtype).to_sparse()
        other = torch.tensor([[1, 1, 0], [0, 1, 0]], device="cuda").to(dtype).to_sparse()
        yield f"sparse {dtype} mul", lambda a=some, b=other: a * b
        yield f"sparse {dtype} add", lambda a=some, b=other: a + b
        yield f"sparse {dtype} mm", lambda a=some, b=other: torch.mm(a, b.to_dense().t())
        yield f"sparse {dtype} sparse mm", lambda a=some, b=other: torch.sparse.mm(a, b.t())
    half = torch.tensor([1, 2, 3.0], dtype=torch.float16, device="cuda")
    for name, call in {
        "pow": lambda: torch.view_as_real((half ** (2 + 1j)).to(torch.complex64)),
        "rpow": lambda: torch.view_as_real(((2 + 1j) ** half).to(torch.complex64)),
        "div": lambda: torch.view_as_real((half / 1j).to(torch.complex64)),
    }.items():
        yield f"complex half {name}", call


def of_lists() -> Iterator[tuple[str, Call]]:
    """Numbers for lists, in a tensor; streams of devices that are not there."""
    given = [torch.ones(3, device="cuda"), torch.ones(2, device="cuda")]
    scalars = {
        "cuda": torch.tensor([1.0, 2.0], device="cuda"),
        "cpu": torch.tensor([1.0, 2.0]),
        "one": torch.tensor([1.0]),
        "rows": torch.ones(1, 2),
        "every other": torch.ones(4)[::2],
    }
    for name, form in itertools.product(("_foreach_addcmul", "_foreach_addcdiv"), scalars):
        yield f"{name} {form}", lambda f=name, s=scalars[form]: getattr(torch, f)(given, given, given, s)[1]
        yield (
            f"{name}_ {form}",
            lambda f=name, s=scalars[form]: getattr(torch, f + "_")([x.clone() for x in given], given, given, s),
        )
    for index in (5, 1):
        yield f"accelerator stream {index}", lambda i=index: torch.accelerator.current_stream(i)
        yield f"current stream {index}", lambda i=index: torch.cuda.current_stream(i)


def calls() -> Iterator[tuple[str, Call]]:
    """All of them, by name."""
    for some in (of_nested, of_storages, of_types, of_lists):
        yield from some()


def list_cases() -> dict[str, Call]:
    return {name: partial(outcome, call) for name, call in calls()}
