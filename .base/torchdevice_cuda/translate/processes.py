"""Other processes: forked children, DataLoader workers, and tensors that are sent to and from them."""

from __future__ import annotations

import contextvars
import copy
import os
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .callers import site
from .factories import entering
from .patches import Editor, patch
from .wrapping import PLAIN, disguise

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
_MAX_DEPTH = 8  # of containers and objects in a dataset
#: What becomes of a CPU tensor that has come from another process, while redirection is in force.
_enter: list[Callable[[torch.Tensor], torch.Tensor]] = []
#: Whether CPU tensors that are being sent are to stay on the CPU: they are a worker's.
_stays_home: contextvars.ContextVar[bool] = contextvars.ContextVar("stays_home", default=False)


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor], depth: int = 0) -> Any:
    """A value with its tensors changed; what holds none of them, or only unchanged ones, is itself."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        made = {key: _mapped(item, change, depth + 1) for key, item in value.items()}
        if all(made[key] is item for key, item in value.items()):
            return value
        replaced = copy.copy(value)
        replaced.update(made)
        return replaced
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, change, depth + 1) for item in value]
        if all(one is other for one, other in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _object_mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor], depth: int = 0) -> Any:
    """The same for an object such as a dataset: a shallow copy of it where one of its attributes changes."""
    found = _mapped(value, change)
    attributes = getattr(value, "__dict__", None)
    if found is not value or not isinstance(attributes, dict) or isinstance(value, type) or depth > _MAX_DEPTH:
        return found
    made = {
        key: _object_mapped(item, change, depth + 1) if hasattr(item, "__dict__") else _mapped(item, change)
        for key, item in attributes.items()
        if not callable(item) or isinstance(item, torch.utils.data.Dataset)
    }
    if all(item is attributes[key] for key, item in made.items()):
        return value
    replaced = copy.copy(value)
    replaced.__dict__.update(made)
    return replaced


@patch("mps")
def forked_children(editor: Editor, driver: Driver) -> None:
    """The GPU does not survive a fork: a child leaves on the CPU what does not name CUDA."""
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.ref(editor.translator)

    def stay_home() -> None:
        translator = reference()
        if translator is not None and driver.in_bad_fork():
            translator.stay_home()

    os.register_at_fork(after_in_child=stay_home)


@patch("mps")
def workers(editor: Editor, driver: Driver) -> None:
    """Workers of a DataLoader prepare data on the CPU, also where they are processes that could use the GPU."""
    from torch.utils.data._utils import worker

    translator = editor.translator
    original = worker._worker_loop

    def _worker_loop(*args: Any, **kwargs: Any) -> None:
        translator.stay_home()
        original(*args, **kwargs)

    editor.set(worker, "_worker_loop", disguise(_worker_loop, original))


@patch("mps")
def datasets(editor: Editor, driver: Driver) -> None:
    """Tensors of a dataset that went to the GPU unasked are brought home for the workers, which cannot reach it."""
    from torch.utils.data import dataloader

    translator = editor.translator
    original = dataloader._MultiProcessingDataLoaderIter.__init__

    def home(tensor: torch.Tensor) -> torch.Tensor:
        return _to(tensor, _CPU) if tensor.device.type == driver.device_type else tensor

    def __init__(self: Any, loader: Any) -> None:
        if translator.unasked is None:
            return original(self, loader)
        dataset = loader.dataset
        at_home = _object_mapped(dataset, home)
        # DataLoader refuses new attributes once it is made; the instance's dictionary does not.
        loader.__dict__["dataset"] = at_home
        staying = _stays_home.set(True)
        try:
            return original(self, loader)
        finally:
            loader.__dict__["dataset"] = dataset
            _stays_home.reset(staying)

    editor.set(dataloader._MultiProcessingDataLoaderIter, "__init__", disguise(__init__, original))


@patch("mps")
def batches(editor: Editor, driver: Driver) -> None:
    """What workers, collating and pinning made enters the program like any data from outside: where the table says.

    A pinned batch goes on answering that it is: the Apple GPU's memory is the host's.
    """
    from torch.utils.data import dataloader

    translator, precision, pinned = editor.translator, editor.precision, editor.pinned

    def enter(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu":
            return tensor
        entered = precision.settle(tensor)
        return pinned.adopt(entered) if tensor in pinned else entered

    for kind in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
        original = kind._next_data

        def _next_data(self: Any, _original: Callable[[Any], Any] = original) -> Any:
            data = _original(self)
            # While explicit requests for the CPU are meant, a batch may be on the CPU because it was asked to be.
            follows = translator.unasked is not None and not translator.override.on
            return _mapped(data, enter) if follows else data

        editor.set(kind, "_next_data", disguise(_next_data, original))


def _like(made: torch.Tensor, requires_grad: bool, parameter: bool) -> torch.Tensor:
    """A tensor as the one that was sent is: a parameter, or one that wants its gradient."""
    return torch.nn.Parameter(made, requires_grad) if parameter else made.requires_grad_(requires_grad)


def _rebuilt(tensor: torch.Tensor, requires_grad: bool, parameter: bool) -> torch.Tensor:
    """A tensor that another process sent from its GPU, on this one's where it has one to use."""
    from .. import drivers

    driver = drivers.installed()
    usable = driver is not None and not driver.in_bad_fork() and torch.utils.data.get_worker_info() is None
    return _like(_to(tensor, torch.device(driver.device_type)) if usable else tensor, requires_grad, parameter)


def _entered(rebuild: Callable[..., torch.Tensor], arguments: tuple) -> torch.Tensor:
    """A tensor that another process sent from its CPU: it enters the program like any data from outside."""
    tensor = rebuild(*arguments)
    if not _enter or tensor.__class__ not in PLAIN:
        return tensor
    moved = _enter[-1](tensor.detach())
    at_home = moved.device.type == tensor.device.type
    return tensor if at_home else _like(moved, tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


@patch("mps")
def sent_tensors(editor: Editor, driver: Driver) -> None:
    """Tensors on the GPU that are sent to another process travel through the host's shared memory.

    Where requests for the CPU are redirected, tensors of the CPU come from children that stay there. They follow the
    table at their destination, unless they are in shared memory: that is what the program wants of them.
    """
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    original = reductions.reduce_tensor
    redirected = editor.translator.unasked is not None
    if redirected:
        _enter.append(entering(editor))
        editor.on_undo(_enter.clear)
    # As on CUDA, what was sent must live until it has arrived: the copy lives as long as the tensor it is of.
    kept: dict[int, torch.Tensor] = {}

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        if tensor.device.type != driver.device_type:
            follows = redirected and tensor.device.type == "cpu" and not tensor.is_shared() and not _stays_home.get()
            return (_entered, original(tensor)) if follows else original(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            return original(tensor)  # whose error says why this is not possible
        at_home = kept[id(tensor)] = _to(tensor.detach(), _CPU)
        weakref.finalize(tensor, kept.pop, id(tensor), None)
        return _rebuilt, (at_home, tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))

    editor.set(reductions, "reduce_tensor", disguise(reduce_tensor, original))
    for kind in (*torch._tensor_classes, torch.Tensor, torch.nn.Parameter):
        if ForkingPickler._extra_reducers.get(kind) is original:
            editor.item(ForkingPickler._extra_reducers, kind, reduce_tensor)


@patch("mps")
def shared_memory(editor: Editor, driver: Driver) -> None:
    """Memory of the GPU cannot be shared: a program that shares what went there unasked is told how to keep it home."""
    if editor.translator.unasked is None:
        return
    original = torch.Tensor.share_memory_
    warned: set[str] = set()

    def share_memory_(self: torch.Tensor) -> torch.Tensor:
        if self.device.type == driver.device_type and not warned:
            warned.add(driver.device_type)
            warnings.warn_explicit(
                "memory of the GPU is not shared with other processes, they get copies: "
                "--policy faithful leaves on the CPU what does not name CUDA",
                UserWarning,
                *site(),
            )
        return original(self)

    editor.set(torch.Tensor, "share_memory_", disguise(share_memory_, original))
