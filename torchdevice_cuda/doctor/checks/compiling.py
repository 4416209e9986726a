"""``torch.compile``: a model as one graph, forward and backward, gives the same results as without."""

from __future__ import annotations

import torch
from torch import nn

from ..asking import Finding, NotHereError, expect, main, question

_NEAR = 1e-4


def _pointwise(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x.sin() * 2 + 1, x.exp() - x.square()).softmax(-1)


def _close(found: torch.Tensor, known: torch.Tensor, what: str) -> None:
    apart = (found - known).abs().max().item()
    expect(apart <= _NEAR, f"{what}: compiled and not, {apart:.2e} apart")


def _compiled_here(error: Exception) -> bool:
    """Return whether there was a C++ compiler, which inductor needs to generate code for the CPU."""
    return "InvalidCxxCompiler" not in f"{type(error).__name__} {error}"


@question
def a_function() -> Finding:
    x = torch.linspace(-2, 2, 512, device="cuda").reshape(8, 64)
    try:
        found = torch.compile(_pointwise, fullgraph=True)(x)
    except Exception as error:
        if _compiled_here(error):
            raise
        raise NotHereError("no C++ compiler is here for torch.compile to use") from error
    _close(found, _pointwise(x), "a function")
    return None


@question
def a_model_and_its_gradients() -> Finding:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).cuda()
    x = torch.randn(16, 32, device="cuda")
    known = model(x)
    known.square().mean().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    try:
        found = torch.compile(model, fullgraph=True)(x)
        found.square().mean().backward()
    except Exception as error:
        if _compiled_here(error):
            raise
        raise NotHereError("no C++ compiler is here for torch.compile to use") from error
    _close(found, known, "the result")
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        expect(parameter.grad is not None and gradient is not None, "a parameter has no gradient")
        if parameter.grad is not None and gradient is not None:
            _close(parameter.grad, gradient, "a gradient")
    return None


if __name__ == "__main__":
    main()
