"""Operators of a program that look at the device of what they are given, and fail where it is not the program's."""

from __future__ import annotations

import torch
from torch import Tensor

#: Where the program has its tensors: on stock torch, the CPU.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Addresses and words that operators leave for tests.
seen: list[object] = []


def _look(*tensors: Tensor) -> None:
    for tensor in tensors:
        assert tensor.device.type == DEVICE, f"an operator sees {tensor.device}"
        assert tensor.is_cuda == (DEVICE == "cuda")


@torch.library.custom_op("program::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    """Double it; with a gradient, an operator too."""
    _look(x)
    seen.append(x.data_ptr())
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    _look(x)
    return torch.empty_like(x)


@torch.library.custom_op("program::twice_backward", mutates_args=())
def twice_backward(g: Tensor) -> Tensor:
    """Double a gradient."""
    _look(g)
    return g * 2


@twice_backward.register_fake
def _(g: Tensor) -> Tensor:
    _look(g)
    return torch.empty_like(g)


twice.register_autograd(lambda ctx, g: torch.ops.program.twice_backward(g))


@torch.library.custom_op("program::cuda_only", mutates_args=(), device_types=DEVICE)
def cuda_only(x: Tensor) -> Tensor:
    """Exist for one kind of device alone."""
    return x + 1


cuda_only.register_fake(torch.empty_like)


@torch.library.custom_op("program::several", mutates_args=())
def several(x: Tensor, n: int, word: str, maybe: Tensor | None, of: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Take and give several."""
    _look(x, *of, *([] if maybe is None else [maybe]))
    return x * n if maybe is None else x * n + maybe, [each + len(word) for each in of]


@several.register_fake
def _(x: Tensor, n: int, word: str, maybe: Tensor | None, of: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    _look(x, *of)
    return torch.empty_like(x), [torch.empty_like(each) for each in of]


@torch.library.custom_op("program::write", mutates_args=("out", "more"))
def write(x: Tensor, out: Tensor, more: list[Tensor]) -> Tensor:
    """Write into what it is given."""
    _look(x, out, *more)
    seen.append(out.data_ptr())
    out.copy_(x * 2)
    for each in more:
        each.add_(1)
    return x.sum()


@write.register_fake
def _(x: Tensor, out: Tensor, more: list[Tensor]) -> Tensor:
    _look(x, out, *more)
    return x.new_empty(())


@torch.library.custom_op("program::make", mutates_args=())
def make(n: int, device: torch.device) -> Tensor:
    """Make a tensor of nothing but a device."""
    assert device.type == DEVICE
    return torch.arange(n, device=device, dtype=torch.float32)


@make.register_fake
def _(n: int, device: torch.device) -> Tensor:
    assert device.type == DEVICE
    return torch.empty(n, device=device)


@torch.library.custom_op("program::choose", mutates_args=())
def choose(x: Tensor) -> Tensor:
    """Give as many as there are positive ones."""
    _look(x)
    return x[x > 0].clone()


@choose.register_fake
def _(x: Tensor) -> Tensor:
    _look(x)
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("program::beside", mutates_args=())
def beside(x: Tensor, host: Tensor) -> tuple[Tensor, Tensor]:
    """Take a tensor of the host's, too, and give one back."""
    _look(x)
    assert host.device.type == "cpu"
    return x + host.sum().item(), host * 2


@beside.register_fake
def _(x: Tensor, host: Tensor) -> tuple[Tensor, Tensor]:
    _look(x)
    assert host.device.type == "cpu"
    return torch.empty_like(x), torch.empty_like(host)


@torch.library.custom_op("program::branch", mutates_args=())
def branch(x: Tensor) -> Tensor:
    """Do one thing on a GPU and another on the CPU."""
    return x + 1 if x.is_cuda else x + 100


branch.register_fake(torch.empty_like)

library = torch.library.Library("program", "FRAGMENT")
library.define("scale_(Tensor(a!) x, SymInt n, *, Scalar k=2) -> ()")
library.define("note(Tensor x, str word) -> Tensor")


def _scale(x: Tensor, n: int, *, k: float = 2) -> None:
    _look(x)
    x.mul_(n * k)


def _note(x: Tensor, word: str) -> Tensor:
    _look(x)
    seen.append(word)
    return x + 1


library.impl("scale_", _scale, "CompositeExplicitAutograd")
library.impl("note", _note, "CompositeExplicitAutograd")
torch.library.register_fake("program::scale_", lambda x, n, *, k=2: _look(x), lib=library)
torch.library.register_fake("program::note", lambda x, word: torch.empty_like(x), lib=library)


def numbers(*size: int) -> Tensor:
    """Give small whole numbers, some negative: what is computed of them is exact."""
    size = size or (3, 4)
    return torch.arange(-2.0, torch.Size(size).numel() - 2).reshape(size).to(DEVICE)
