"""Steps that are about the graph: gradients, hooks, parts that are not recorded."""

from __future__ import annotations

import torch
from calls import Call, row
from drawing import COMPLEX, FLOATS, Draw, Skip
from sides import is_leaf


def _leaves(d: Draw) -> list[str]:
    return [name for name, value in d.known.items() if is_leaf(value) and value.requires_grad]


def _outs(d: Draw) -> list[str]:
    return [name for name, value in d.known.items() if value.requires_grad and is_leaf(value) is False]


@row("autograd", 2)
def hook(d: Draw) -> Call:
    x = d.tensor((*FLOATS, *COMPLEX), fits=lambda value: value.requires_grad)
    if d.chance(0.3):
        return Call(f"{x}.retain_grad()", "retain_grad", 0)
    return Call(f"_ = {x}.register_hook(lambda grad: grad * {d.one(2, 0.5, -1)})", "register_hook", 0)


@row("autograd", 3)
def unrecorded(d: Draw) -> Call:
    x = d.tensor((*FLOATS, *COMPLEX), fits=lambda value: value.requires_grad)
    kind = d.rng.random()
    if kind < 0.3:
        change = d.one("mul_(0.5)", "add_(1)", "neg_()", "zero_()")
        return Call(f"torch.no_grad()(lambda: {x}.{change})()", "no_grad in place", 0, True)
    if kind < 0.5:
        return Call(f"{x}.detach()", "detach")
    if kind < 0.6:
        return Call(f"{x}.detach().{d.one('mul_(2)', 'add_(1)')}", "detach in place", 0, True)
    if kind < 0.8:
        return Call(f"{x}.detach().clone().requires_grad_()", "new leaf")
    return Call(f"torch.no_grad()(lambda: {x} * 2 + 1)()", "no_grad")


@row("autograd", 3)
def gradient(d: Draw) -> Call:
    leaves, outs = _leaves(d), _outs(d)
    if not leaves or not outs:
        raise Skip
    chosen = d.rng.sample(leaves, min(len(leaves), d.one(1, 2, 3)))
    some = d.rng.sample(outs, min(len(outs), d.one(1, 2)))
    twice = d.chance(0.4)
    how = f"key={d.key()}, create_graph={twice}, retain_graph={True if twice else d.one(None, True, True)}"
    code = f"gradients([{', '.join(some)}], [{', '.join(chosen)}], {how})"
    return Call(_alone(code, chosen), "gradient", len(chosen), stays=True)


@row("autograd", 1)
def backward(d: Draw) -> Call:
    outs = _outs(d)
    leaves = _leaves(d)
    if not outs or not leaves:
        raise Skip
    out = d.rng.choice(outs)
    if d.known[out].dtype not in (torch.float32, torch.float64):
        raise Skip
    return Call(
        f"({out}.sum().backward(retain_graph=True), {d.rng.choice(leaves)}.grad.clone())[1]", "backward", stays=True
    )


def final(known: dict[str, torch.Tensor], key: int) -> Call | None:
    """Differentiate everything that can be, at a program's end."""
    leaves = [name for name, value in known.items() if is_leaf(value) and value.requires_grad]
    outs = [name for name, value in known.items() if value.requires_grad and is_leaf(value) is False]
    if not leaves or not outs:
        return None
    code = f"gradients([{', '.join(outs)}], [{', '.join(leaves)}], key={key})"
    return Call(_alone(code, leaves), "gradient", len(leaves))


def _alone(code: str, leaves: list[str]) -> str:
    """Take a single gradient out of its list."""
    return f"{code}[0]" if len(leaves) == 1 else code
