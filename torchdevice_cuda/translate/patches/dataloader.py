"""``torch.utils.data``: workers, batches and pinning of a DataLoader."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import dataloader
from torch.utils.data._utils import pin_memory as pinning
from torch.utils.data._utils import worker

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.entering import stays_on_cpu
from ..core.registry import patch
from ..core.wrapping import copy_metadata

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
_MAX_DEPTH = 8  # nesting of containers and objects in a dataset
_MANY, _ONE = dataloader._MultiProcessingDataLoaderIter, dataloader._SingleProcessDataLoaderIter
_ITERATORS = "torch.utils.data.dataloader"

Change = Callable[[torch.Tensor], torch.Tensor]


def _mapped(value: Any, change: Change, depth: int = 0) -> Any:
    """Return a value with its tensors changed; the value itself if no tensor in it changes."""
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


def _object_mapped(value: Any, change: Change, depth: int = 0) -> Any:
    """Map an object such as a dataset: return a shallow copy if one of its attributes changes."""
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


@patch("torch.utils.data._utils.worker._worker_loop", traits=Trait.ACCELERATES)
def workers(context: Context) -> None:
    """Workers of a DataLoader prepare data on the CPU, even if they are processes that could use the GPU."""
    translator = context.translator
    original = worker._worker_loop

    def _worker_loop(*args: Any, **kwargs: Any) -> None:
        translator.stay_on_cpu()
        original(*args, **kwargs)

    context.editor.set(worker, "_worker_loop", copy_metadata(_worker_loop, original))


@patch(f"{_ITERATORS}.{_MANY.__name__}.__init__", traits=Trait.ACCELERATES)
def datasets(context: Context) -> None:
    """Workers cannot access the GPU, so a dataset's redirected tensors are copied to the CPU for them."""
    translator, real = context.translator, context.driver.device_type
    original: Callable[[Any, Any], None] = _MANY.__init__

    def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
        return _to(tensor, _CPU) if tensor.device.type == real else tensor

    def __init__(self: Any, loader: Any) -> None:
        if translator.default_target is None:
            return original(self, loader)
        dataset = loader.dataset
        # DataLoader refuses new attributes after construction; the instance's dictionary does not.
        loader.__dict__["dataset"] = _object_mapped(dataset, to_cpu)
        staying = stays_on_cpu.set(True)
        try:
            return original(self, loader)
        finally:
            loader.__dict__["dataset"] = dataset
            stays_on_cpu.reset(staying)

    context.editor.set(_MANY, "__init__", copy_metadata(__init__, original))


@patch(*(f"{_ITERATORS}.{kind.__name__}._next_data" for kind in (_ONE, _MANY)), traits=Trait.ACCELERATES)
def batches(context: Context) -> None:
    """Batches from workers, collating and pinning enter the program like other outside data: the policy moves them.

    A pinned batch still reports that it is pinned: the Apple GPU's memory is the host's.
    """
    translator, precision, pinned = context.translator, context.precision, context.pinned
    real, apparent_devices = context.driver.device_type, translator.apparent_devices

    def enter(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu":
            # A dataset's tensor that is not known to have been created for CUDA.
            known = tensor.device.type != real or apparent_devices.is_known_cuda(tensor)
            return tensor if known else apparent_devices.add_cpu(tensor)
        entered = apparent_devices.add_cpu(precision.admit(tensor))
        return pinned.adopt(entered) if tensor in pinned else entered

    for kind in (_ONE, _MANY):
        original = kind._next_data

        def _next_data(self: Any, _original: Callable[[Any], Any] = original) -> Any:
            data = _original(self)
            # While explicit requests for the CPU are taken literally, a batch may be on the CPU because it was
            # requested there.
            follows = translator.default_target is not None and not translator.override.on
            return _mapped(data, enter) if follows else data

        context.editor.set(kind, "_next_data", copy_metadata(_next_data, original))


class _Done:
    """A DataLoader's "done" event, which sets torch's number of threads when it is first read."""

    def __init__(self, event: Any, threads: int) -> None:
        self._event = event
        self._threads: int | None = threads

    def is_set(self) -> bool:
        """Return whether the DataLoader is done."""
        if self._threads is not None:
            torch.set_num_threads(self._threads)
            self._threads = None
        return bool(self._event.is_set())


@patch("torch.utils.data._utils.pin_memory._pin_memory_loop", traits=Trait.HOST_MEMORY)
def pinning_thread(context: Context) -> None:
    """The thread that pins a DataLoader's batches sets torch to one thread, but the host must compute on all cores.

    The setting affects every thread that has not computed yet, the main one included. With a GPU that does not matter;
    if the host computes, all later training would run on a single core. The thread first changes the setting, then
    reads the "done" event: that read restores the number.
    """
    original = pinning._pin_memory_loop
    torch.get_num_threads()  # fixes the number of the calling thread, whatever a pinning thread sets later

    def _pin_memory_loop(in_queue: Any, out_queue: Any, device_id: Any, done_event: Any, *rest: Any) -> None:
        original(in_queue, out_queue, device_id, _Done(done_event, torch.get_num_threads()), *rest)

    context.editor.set(pinning, "_pin_memory_loop", copy_metadata(_pin_memory_loop, original))
