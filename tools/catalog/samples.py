"""PyTorch's own samples: of operators, modules and optimizers."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

#: A sample: arguments and keywords.
Sample = tuple[tuple[Any, ...], dict[str, Any]]


def moved(value: Any, device: str) -> Any:
    from torch.utils._pytree import tree_map

    return tree_map(lambda x: x.to(device) if isinstance(x, (torch.Tensor, torch.nn.Module)) else x, value)


@functools.cache
def operators() -> dict[str, list[Any]]:
    """By the names that an operator is called by, its kinds of samples: methods, in place, and other names too."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[Any]] = {}
    for op in op_db:
        names = [op.name, *(alias.name for alias in op.aliases), op.aten_name or op.name]
        for name in dict.fromkeys(names):
            rows = found.setdefault(name, [])
            rows.insert(0, op) if not op.variant_test_name and name == op.name else rows.append(op)
    return found


@functools.cache
def modules() -> dict[type, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.module_cls: info for info in module_db}


@functools.cache
def optimizers() -> dict[type, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls: info for info in optim_db}


def load(namespace: str) -> None:
    """Imports what the calls of a namespace need, before any is waited for."""
    space = namespace.split(".")[1:2]
    if (
        space in ([], ["Tensor"], ["functional"], ["special"], ["linalg"], ["fft"], ["masked"], ["signal"])
        or namespace == "torch.nn.functional"
    ):
        operators()
    if space == ["nn"]:
        modules()
    if space == ["optim"]:
        optimizers()
    if space in (["export"], ["compiler"], ["fx"]) or namespace.startswith("torch.nn.attention"):
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch._inductor.compile_fx")


def of_operator(name: str, device: str) -> Iterator[tuple[str, Sample]]:
    """Samples of the operator that a name stands for, each with a key."""
    short = name
    for prefix in ("torch.Tensor.", "torch.functional.", "torch."):
        short = short.removeprefix(prefix)
    if name.count(".") > 2 and not name.startswith(("torch.nn.functional.", "torch.signal.windows.")):
        return
    for known in dict.fromkeys((short, short.removesuffix("_"), f"nn.functional.{short}", short.rpartition(".")[2])):
        if found := operators().get(known):
            break
    else:
        return
    for number, op in enumerate(found[:2]):
        for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
            if dtype not in op.dtypes:
                continue
            torch.manual_seed(1)
            sampled = op.sample_inputs("cpu", dtype, requires_grad=False)
            for place, sample in enumerate(itertools.islice(sampled, 4)):
                given = moved(((sample.input, *sample.args), dict(sample.kwargs)), device)
                yield f"sample {number} {str(dtype)[6:]} {place}", given
            break


def of_module(owner: type, device: str) -> Iterator[tuple[str, Any, Sample]]:
    """Modules as PyTorch's samples make them, each with a key and an input."""
    info = modules().get(owner)
    if info is None:
        return
    torch.manual_seed(1)
    sampled = info.module_inputs_func(info, "cpu", torch.float32, False, True)
    for place, sample in enumerate(itertools.islice(sampled, 3)):
        made = owner(*sample.constructor_input.args, **sample.constructor_input.kwargs).to(device)
        given = sample.forward_input
        yield f"module {place}", made, moved((tuple(given.args), given.kwargs), device) if given else ((), {})


def of_optimizer(owner: type, device: str) -> Iterator[tuple[str, Any]]:
    """Optimizers with PyTorch's own choices of settings, over parameters that have gradients."""
    import values

    info = optimizers().get(owner)
    if info is None:
        return
    for place, given in enumerate(itertools.islice(info.optim_inputs_func(device="cpu"), 2)):
        yield f"optimizer {place}", owner(list(values.trained(device).parameters()), **given.kwargs)
