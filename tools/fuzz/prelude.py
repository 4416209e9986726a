"""Define what a fuzzed program may use besides torch: inputs whose values depend on whole numbers alone, and gradients.

Each side of a comparison executes this file with its own ``DEV``; a printed program begins with it. A record holds
calls of these functions: one that gives other numbers makes the records that are there worthless.
"""

import torch
import torch.nn.functional as F  # noqa: F401, N812  (programs use it)

DEV = "cpu"


def numbers(key, count, low, high):
    """Draw whole numbers from a key: the same with every release of torch, on every machine."""
    mixed = (torch.arange(1, count + 1, device="cpu") * (2 * key + 1) * 40503 + key * 7919) % 65521
    return (mixed * mixed + 31 * mixed + key) % 65521 % (high - low + 1) + low


def make(key, shape, dtype, low=-24, high=24, scale=8):
    """Make a tensor of eighths; of whole numbers, where the dtype has no others."""
    count = 1
    for size in shape:
        count *= size
    if dtype.is_complex:
        parts = numbers(key, 2 * count, low, high).double().div(scale).reshape(*shape, 2)
        made = torch.view_as_complex(parts).to(dtype)
    elif dtype.is_floating_point:
        made = numbers(key, count, low, high).double().div(scale).reshape(shape).to(dtype)
    elif dtype is torch.bool:
        made = (numbers(key, count, 0, 1) > 0).reshape(shape)
    else:
        made = numbers(key, count, 0 if dtype is torch.uint8 else low // 4, high // 4).reshape(shape).to(dtype)
    return made.to(DEV, copy=True)  # a tensor of its own, on the CPU too


def distinct(key, shape, dtype):
    """Make a tensor in which no two elements are equal."""
    count = 1
    for size in shape:
        count *= size
    order = torch.argsort(numbers(key, count, 0, 65520) * 4096 + torch.arange(count, device="cpu"))
    return (
        (order - count // 2)
        .double()
        .div(1 if not dtype.is_floating_point else 8)
        .reshape(shape)
        .to(dtype)
        .to(DEV, copy=True)
    )


def index(key, shape, bound):
    """Make indices below a bound."""
    return make(key, shape, torch.int64, 0, 4 * 65520).remainder(bound)


def permuted(key, count):
    """Make indices in which each occurs once."""
    return distinct(key, (count,), torch.int64) + count // 2


def definite(key, shape, dtype):
    """Make symmetric positive definite matrices that are well conditioned."""
    made = make(key, shape, dtype) / 16
    return made @ made.mH + 2 * torch.eye(shape[-1], dtype=dtype, device=DEV)


def gradients(outs, leaves, key=1, create_graph=False, retain_graph=None):
    """Differentiate the sum of tensors with weights; zeros for what is not used."""
    outs = [out for out in outs if out.requires_grad]
    weights = [make(key + n, tuple(out.shape), out.dtype) for n, out in enumerate(outs)]
    found = torch.autograd.grad(
        outs, leaves, weights, allow_unused=True, create_graph=create_graph, retain_graph=retain_graph
    )
    return [leaf.detach() * 0 if grad is None else grad for grad, leaf in zip(found, leaves, strict=True)]
