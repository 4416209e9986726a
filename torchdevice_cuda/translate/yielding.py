"""Where redirecting to the GPU would break the program it yields: workers, forked children, CPU-only arguments."""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
_MAX_DEPTH = 8  # of containers and objects in a dataset


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


# ------------------------------------------------------------------------------ processes
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
        try:
            return original(self, loader)
        finally:
            loader.__dict__["dataset"] = dataset

    editor.set(dataloader._MultiProcessingDataLoaderIter, "__init__", disguise(__init__, original))


@patch("mps")
def batches(editor: Editor, driver: Driver) -> None:
    """What workers made, and what was pinned, enters the program like any data from outside: where the table says.

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
            outside = self._pin_memory or self._num_workers
            return _mapped(data, enter) if outside and translator.unasked is not None else data

        editor.set(kind, "_next_data", disguise(_next_data, original))


def _rebuilt(tensor: torch.Tensor, requires_grad: bool, parameter: bool) -> torch.Tensor:
    """A tensor that another process sent from its GPU, on this one's where it has one to use."""
    from .. import drivers

    driver = drivers.installed()
    usable = driver is not None and not driver.in_bad_fork() and torch.utils.data.get_worker_info() is None
    made = _to(tensor, torch.device(driver.device_type)) if usable else tensor
    if parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


@patch("mps")
def sent_tensors(editor: Editor, driver: Driver) -> None:
    """Tensors on the GPU that are sent to another process travel through the host's shared memory."""
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    original = reductions.reduce_tensor
    # As on CUDA, what was sent must live until it has arrived: the copy lives as long as the tensor it is of.
    kept: dict[int, torch.Tensor] = {}

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        if tensor.device.type != driver.device_type:
            return original(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            return original(tensor)  # whose error says why this is not possible
        at_home = kept[id(tensor)] = _to(tensor.detach(), _CPU)
        weakref.finalize(tensor, kept.pop, id(tensor), None)
        return _rebuilt, (at_home, tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))

    editor.set(reductions, "reduce_tensor", disguise(reduce_tensor, original))
    for kind in (*torch._tensor_classes, torch.Tensor, torch.nn.Parameter):
        if ForkingPickler._extra_reducers.get(kind) is original:
            editor.item(ForkingPickler._extra_reducers, kind, reduce_tensor)


# ------------------------------------------------------------------------------ arguments
@patch("mps")
def sequence_lengths(editor: Editor, driver: Driver) -> None:
    """Lengths of packed sequences are the CPU's: those that went to the GPU unasked come home, and go back there."""
    from torch.nn.utils import rnn

    translator = editor.translator
    if translator.unasked is None:
        return
    pack, pad = torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence

    class Functions:
        """torch._VF as the module sees it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(torch._VF, name)

        @staticmethod
        def _pack_padded_sequence(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
            return pack(input, _to(lengths, _CPU), batch_first)

        @staticmethod
        def _pad_packed_sequence(*args: Any) -> tuple[torch.Tensor, torch.Tensor]:
            padded, lengths = pad(*args)
            return padded, _to(lengths, translator.unasked) if translator.injects() else lengths

    editor.set(rnn, "_VF", Functions())


#: Functions that draw into, or from, a tensor they are given; and methods that do so in place.
_DRAWING = ("bernoulli", "multinomial", "normal", "poisson", "binomial")
_DRAWING_IN_PLACE = (
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
)  # fmt: skip


@patch("mps")
def host_generators(editor: Editor, driver: Driver) -> None:
    """A generator of the CPU draws on the CPU, also for a tensor that went to the GPU unasked."""
    if editor.translator.unasked is None:
        return

    def home(value: Any) -> Any:
        return _to(value, _CPU) if isinstance(value, torch.Tensor) else value

    def wrap(original: Any, in_place: bool) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            generator = kwargs.get("generator")
            subject = args[0] if args else None
            on_gpu = isinstance(subject, torch.Tensor) and subject.device.type == driver.device_type
            if generator is None or not on_gpu or generator.device.type != "cpu":
                return original(*args, **kwargs)
            drawn = original(*map(home, args), **kwargs)
            return subject.copy_(drawn) if in_place else _to(drawn, subject.device)

        return disguise(wrapper, original)

    for owner, names, in_place in ((torch, _DRAWING, False), (torch.Tensor, _DRAWING_IN_PLACE, True)):
        for name in names:
            original = getattr(owner, name)
            install(editor, owner, name, wrap(original, in_place), original)
    for name in ("bernoulli", "multinomial"):
        original = getattr(torch.Tensor, name)
        install(editor, torch.Tensor, name, wrap(original, False), original)


@patch("mps")
def random_states(editor: Editor, driver: Driver) -> None:
    """States of generators are bytes of the CPU; one that was loaded onto the GPU unasked comes home."""
    import torch.cuda.random
    import torch.random

    if editor.translator.unasked is None:
        return
    for owner, also in ((torch.random, torch), (torch.cuda.random, torch.cuda)):
        original = owner.set_rng_state

        def set_rng_state(new_state: torch.Tensor, *args: Any, _original: Any = original, **kwargs: Any) -> None:
            _original(_to(new_state, _CPU), *args, **kwargs)

        wrapper = disguise(set_rng_state, original)
        for place in (owner, also):
            install(editor, place, "set_rng_state", wrapper, original)


@patch("mps")
def pinned_memory(editor: Editor, driver: Driver) -> None:
    """Pinning is about host memory: a tensor that went to the GPU unasked comes home for it."""
    translator, pinned = editor.translator, editor.pinned
    pin, asks = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        if self in pinned:
            return self
        if self.layout is not torch.strided or (self.device.type != "cpu" and translator.unasked is None):
            raise RuntimeError(f"cannot pin '{torch.Tensor.type(self)}' only dense CPU tensors can be pinned")
        copied = _to(self.detach(), _CPU, copy=True, memory_format=torch.contiguous_format)
        return pinned.adopt(copied.requires_grad_(self.requires_grad))

    def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
        return self in pinned

    install(editor, torch.Tensor, "pin_memory", disguise(pin_memory, pin), pin)
    install(editor, torch.Tensor, "is_pinned", disguise(is_pinned, asks), asks)


@patch("mps")
def loaded_storages(editor: Editor, driver: Driver) -> None:
    """Storages that ``torch.load`` restores on the CPU follow the table, so that they can meet the rest."""
    from torch import serialization

    translator = editor.translator

    def deserialize(storage: Any, location: str) -> Any:
        redirected = location == "cpu" and translator.unasked is not None and not translator.override.on
        return storage.to(device=translator.unasked) if redirected else None

    entry = (9, lambda storage: None, deserialize)
    serialization._package_registry.append(entry)
    serialization._package_registry.sort(key=lambda row: row[0])
    editor.on_undo(lambda: serialization._package_registry.remove(entry))
