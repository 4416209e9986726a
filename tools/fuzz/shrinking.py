"""Leave out steps of a program for as long as what was found remains."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import torch
from program import Step, without

#: How many shorter programs are tried.
_TRIES = 400
_GRADIENTS = re.compile(r"gradients\(\[(.*?)\], \[(.*?)\], (.*)\)(\[0\])?")


def shrink(
    steps: list[Step], remains: Callable[[list[Step]], bool], tensors: dict[str, torch.Tensor] | None
) -> list[Step]:
    """Find a short program; the last step is the one that failed, and ``tensors`` are what the variables hold.

    Where the reference is a record, which holds none, only steps go that write nothing: what it gave without others is
    not known.
    """
    tries = 0
    again = True
    while again:
        again = False
        for fewer in _shorter(steps, tensors):
            tries += 1
            if tries > _TRIES:
                return steps
            if remains(fewer):
                steps, again = fewer, True
                break
    return steps


def _shorter(steps: list[Step], tensors: dict[str, torch.Tensor] | None) -> Iterator[list[Step]]:
    for last in _fewer_gradients(steps[-1]) if tensors is not None else ():
        yield [*steps[:-1], last]
    for number in range(len(steps) - 2, -1, -1):
        if steps[number].writes and tensors is None:
            continue
        fewer = without(steps, number)
        if fewer and fewer[-1] is steps[-1]:
            yield fewer
    for number in range(len(steps) - 2, -1, -1) if tensors is not None else ():
        name = steps[number].gives[0] if len(steps[number].gives) == 1 else ""
        if steps[number].op != "leaf" and name in tensors:
            yield [*steps[:number], _make_leaf(name, tensors[name]), *steps[number + 1 :]]


def _make_leaf(name: str, value: torch.Tensor) -> Step:
    """Make an input of what was computed."""
    grad = ".requires_grad_()" if value.requires_grad else ""
    return Step(f"{name} = make(7, {tuple(value.shape)}, {value.dtype}){grad}", "leaf", (name,))


def _fewer_gradients(step: Step) -> Iterator[Step]:
    """Differentiate less, or by less."""
    found = _GRADIENTS.search(step.code)
    if found is None:
        return
    outs, leaves = found[1].split(", "), found[2].split(", ")
    for number in range(len(leaves) if len(leaves) > 1 else 0):
        yield _write(step, outs, leaves[:number] + leaves[number + 1 :], found[3], number)
    for number in range(len(outs) if len(outs) > 1 else 0):
        yield _write(step, outs[:number] + outs[number + 1 :], leaves, found[3], None)


def _write(step: Step, outs: list[str], leaves: list[str], how: str, gone: int | None) -> Step:
    gives = tuple(name for number, name in enumerate(step.gives) if number != gone)
    code = f"{', '.join(gives)} = gradients([{', '.join(outs)}], [{', '.join(leaves)}], {how})"
    return dataclasses.replace(step, gives=gives, code=f"{code}[0]" if len(gives) == 1 else code)
