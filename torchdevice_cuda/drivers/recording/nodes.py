"""One step of a graph: a call that is repeated with the current contents of its memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

_detach, _copy = torch._C.TensorBase.detach, torch._C.TensorBase.copy_


@dataclasses.dataclass(frozen=True)
class Node:
    """An action and its name."""

    name: str
    run: Callable[[], object]


def held(value: Any, keep: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return an argument as a graph stores it: its tensors keep their memory, even if the program drops its own."""
    if isinstance(value, torch.Tensor):
        return keep(value)
    if isinstance(value, (list, tuple)):
        return [held(item, keep) for item in value]
    return value


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return another tensor over the same memory."""
    return _detach(tensor)


def writable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor with separate addresses: elements of an expanded tensor share some."""
    strides = tensor.stride() if tensor.layout is torch.strided else ()
    if 0 not in strides or not tensor.numel():
        return tensor
    placed = zip(tensor.shape, strides, strict=True)
    once = tuple(slice(0, 1) if stride == 0 and size > 1 else slice(None) for size, stride in placed)
    return tensor[once]


def calling(
    call: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    places: list[tuple[int, torch.Tensor]],
    writing: Callable[..., Any] | None,
) -> Callable[[], object]:
    """Return a call whose results go to the memory of the first call: ``places`` has their positions and tensors.

    ``writing`` computes into memory that is passed as ``out``.
    """
    if not places:
        return lambda: call(*args, **kwargs)
    if writing is not None and len(places) == 1 and writable(places[0][1]) is places[0][1]:
        kwargs = {**kwargs, "out": places[0][1]}
        return lambda: writing(*args, **kwargs)

    def run() -> None:
        made = list(flat(call(*args, **kwargs)))
        for place, result in places:
            _copy(writable(result), writable(made[place]))

    return run


def flat(value: Any) -> Iterator[Any]:
    """Yield the results of a call, one by one."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    else:
        yield value
