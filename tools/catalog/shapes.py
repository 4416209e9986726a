"""Calls of the environment of symbols that stand for sizes, each with a symbol of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import values
from values import Given, numbers

Call = Callable[[str], Any]
WHERE = "torch.fx.experimental.symbolic_shapes.ShapeEnv"


def source(name: str = "x") -> Any:
    from torch._dynamo.source import LocalSource

    return LocalSource(name)


def dynamic() -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    return DimDynamic.DYNAMIC


def symbol(environment: Any) -> Any:
    """Return a size that is five, as far as is known."""
    return environment.create_symbol(5, source(), dynamic())


def size(environment: Any) -> Any:
    return environment.create_symintnode(symbol(environment), hint=5, source=source())


def real(environment: Any) -> Any:
    """Return a number that is a half, as far as is known."""
    return environment.create_unspecified_symbol(0.5, source(), dynamic())


def guarded(environment: Any) -> Any:
    """Return the guards of a tensor with a size that was asked about."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=environment)
    how = StatelessSymbolicContext(dynamic_sizes=[dynamic()])
    fake = mode.from_tensor(torch.ones(5), source=source(), symbolic_context=how)
    bool(fake.shape[0] > 3)
    return [[fake], [source()]]


OBJECTS: dict[str, values.Maker] = {}
GIVEN: dict[str, Given] = {
    f"{WHERE}.{name}": make for name, make in {
        "bound_sympy": lambda x, d: [symbol(x) + 1], "create_symboolnode": lambda x, d: [symbol(x) > 3],
        "create_symfloatnode": lambda x, d: {"sym": real(x), "hint": 0.5, "source": source()},
        "evaluate_expr": lambda x, d: [symbol(x) > 3], "evaluate_sym_node": lambda x, d: [(size(x) > 3).node],
        "get_pruned_guards": lambda x, d: [[size(x)]],
        "guard_or_defer_runtime_assert": lambda x, d: [symbol(x) > 3, "it is larger than three"],
        "create_symintnode": lambda x, d: {"sym": symbol(x), "hint": 5, "source": source()},
        "create_symbol": lambda x, d: [5, source()], "is_unbacked_symint": lambda x, d: [symbol(x)],
        "create_unspecified_symint_and_symbol": lambda x, d: [5, source(), dynamic()],
        "has_hint": lambda x, d: [symbol(x)], "simplify": lambda x, d: [symbol(x) + symbol(x)],
        "size_hint": lambda x, d: [symbol(x)], "replace": lambda x, d: [symbol(x)],
        "create_symbolic_sizes_strides_storage_offset": lambda x, d: [numbers(d, 3, 3), source()],
        "produce_guards_verbose": lambda x, d: guarded(x),
    }.items()
}  # fmt: skip
CALLS: dict[str, Call] = {}
