"""``torch.multiprocessing`` and forks: other processes, and tensors sent to and from them."""

from __future__ import annotations

import os
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable
from multiprocessing import spawn
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import torch
from torch.multiprocessing import reductions

from ... import drivers
from ..._compat import event_reducer
from ...drivers.traits import Trait
from ...fallback.refusals import NARROW
from ...wrapper_tensors.doubles import HostDoubleTensor, entered, homes
from ..core.apparent_devices import ApparentDevices
from ..core.callers import site
from ..core.context import Context
from ..core.entering import Enter, entering, stays_on_cpu
from ..core.marks import Marks
from ..core.registry import patch
from ..core.wrapping import PLAIN, Function, copy_metadata

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
#: multiprocessing's name of the thread that pickles the items of a queue.
_FEEDER = "QueueFeederThread"
_UNGUARDED = (
    "torchdevice_cuda: a process that this program started is a new one, as always on macOS, and imports the program: "
    "put what starts processes or loops over a DataLoader under 'if __name__ == \"__main__\":', or use num_workers=0"
)
#: The functions that pickle objects for other processes, by class.
_reducers: dict[Any, Any] = vars(ForkingPickler)["_extra_reducers"]
#: The handler of a CPU tensor from another process, while redirection is in force.
_enter: list[Enter] = []
#: The apparent devices, while redirection is in force.
_apparent_devices: list[ApparentDevices] = []
#: The tensors that are on CUDA, if CUDA's memory is the host's.
_marks: list[Marks] = []


@patch(traits=Trait.UNSHARED)
def forked_children(context: Context) -> None:
    """The GPU does not survive a fork: in a child, requests that do not name CUDA stay on the CPU."""
    if not hasattr(os, "register_at_fork"):
        return
    driver, reference = context.driver, weakref.ref(context.translator)

    def stay_on_cpu() -> None:
        translator = reference()
        if translator is not None and driver.in_bad_fork():
            translator.stay_on_cpu()

    os.register_at_fork(after_in_child=stay_on_cpu)


@patch("multiprocessing.spawn._check_not_importing_main", traits=Trait.SUBSTITUTE)
def unguarded_programs(context: Context) -> None:
    """A spawned child imports the program; one that starts processes then raises Python's error, and gets a line."""
    original: Function = spawn._check_not_importing_main  # type: ignore[attr-defined]

    def check() -> None:
        try:
            original()
        except RuntimeError:
            print(_UNGUARDED, file=sys.stderr)
            raise

    context.editor.set(spawn, "_check_not_importing_main", copy_metadata(check, original))


@patch(traits=Trait.SUBSTITUTE)
def sent_events(context: Context) -> None:
    """While it is imported, torch registers how to send events, for the class that torch.cuda.Event is then."""
    reducer = event_reducer()
    if reducer is not None:
        context.editor.item(_reducers, torch.cuda.Event, reducer)


def _like(made: torch.Tensor, requires_grad: bool, parameter: bool) -> torch.Tensor:
    """Return a tensor with the properties of the one that was sent: a parameter, or one that requires a gradient."""
    return torch.nn.Parameter(made, requires_grad) if parameter else made.requires_grad_(requires_grad)


def _rebuilt(
    rebuild: Callable[..., torch.Tensor], arguments: tuple[Any, ...], requires_grad: bool, parameter: bool, on_cpu: bool
) -> torch.Tensor:
    """Return a tensor that another process sent from its GPU, on this process's GPU if it can use one."""
    tensor = rebuild(*arguments)
    driver = drivers.installed()
    if driver is not None and not driver.in_bad_fork() and torch.utils.data.get_worker_info() is None:
        device = torch.device(driver.device_type)
        tensor = entered(tensor, device) if device.type in homes and tensor.dtype in NARROW else _to(tensor, device)
        for apparent_devices in _apparent_devices:
            (apparent_devices.add_cpu if on_cpu else apparent_devices.add_cuda)(tensor)
    return _like(tensor, requires_grad, parameter)


def _entered(rebuild: Callable[..., torch.Tensor], arguments: tuple[Any, ...]) -> torch.Tensor:
    """Return a tensor that another process sent from its CPU: it enters the program like other outside data."""
    tensor = rebuild(*arguments)
    if not _enter or tensor.__class__ not in PLAIN:
        return tensor
    moved = _enter[-1](tensor.detach())
    stayed = moved.device.type == tensor.device.type
    return tensor if stayed else _like(moved, tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


@patch("torch.multiprocessing.reductions.reduce_tensor", traits=Trait.UNSHARED)
def sent_tensors(context: Context) -> None:
    """Tensors on the GPU are sent to other processes through the host's shared memory.

    If requests for the CPU are redirected, CPU tensors come from children that stay on the CPU. They follow the policy
    at their destination, unless they are in shared memory, which the program wants to keep shared.
    """
    editor, real = context.editor, context.driver.device_type
    original: Function = reductions.reduce_tensor
    redirected = Trait.ACCELERATES in context.traits
    if redirected:
        _enter.append(entering(context))
        editor.on_undo(_enter.clear)
        _apparent_devices.append(context.translator.apparent_devices)
        editor.on_undo(_apparent_devices.clear)
    # As on CUDA, a sent tensor must live until it has arrived: the copy lives as long as the tensor.
    kept: dict[int, torch.Tensor] = {}

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        if tensor.device.type != real:
            follows = redirected and tensor.device.type == "cpu" and not tensor.is_shared() and not stays_on_cpu.get()
            return (_entered, original(tensor)) if follows else original(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            return original(tensor)  # raises and says why this is not possible
        on_cpu = kept[id(tensor)] = _to(tensor.detach(), _CPU)
        weakref.finalize(tensor, kept.pop, id(tensor), None)
        believed_cpu = redirected and context.translator.apparent_devices.is_cpu(tensor)
        # The copy is reduced here: as an argument it would enter the other process like a tensor of its CPU.
        properties = (tensor.requires_grad, isinstance(tensor, torch.nn.Parameter), believed_cpu)
        return _rebuilt, (*original(on_cpu), *properties)

    _send_with(context, reduce_tensor, lambda tensor: tensor.device.type == real)


def _failed(words: str) -> NoReturn:
    """Raise an error of the sender in the receiver."""
    raise RuntimeError(words)


def _send_with(context: Context, reduce_tensor: Function, on_cuda: Callable[[torch.Tensor], bool]) -> None:
    """Use another function to pickle tensors for other processes.

    The thread that feeds a queue prints an error and sends nothing, so that the receiver would wait forever. For a
    tensor on CUDA the error itself is sent.
    """
    original: Function = reductions.reduce_tensor

    def reduce_or_tell(tensor: torch.Tensor) -> Any:
        try:
            return reduce_tensor(tensor)
        except RuntimeError as error:
            if threading.current_thread().name != _FEEDER or not on_cuda(tensor):
                raise
            traceback.print_exc()
            return _failed, (str(error),)

    context.editor.set(reductions, "reduce_tensor", copy_metadata(reduce_or_tell, original))
    for kind in (*torch._tensor_classes, torch.Tensor, torch.nn.Parameter):
        if _reducers.get(kind) is original:
            context.editor.item(_reducers, kind, reduce_or_tell)
    context.editor.item(_reducers, HostDoubleTensor, reduce_or_tell)


@patch("torch.multiprocessing.reductions.reduce_tensor", traits=Trait.NATIVE, without=Trait.TRANSLATED)
def sent_errors(context: Context) -> None:
    """A process that waits for a CUDA tensor must get the reason why it cannot be sent."""
    _send_with(context, reductions.reduce_tensor, lambda tensor: tensor.is_cuda)


def _marked(rebuild: Callable[..., torch.Tensor], arguments: tuple[Any, ...]) -> torch.Tensor:
    """Return a tensor that is on CUDA in the sender."""
    tensor = rebuild(*arguments)
    for marks in _marks:
        marks.add_moved(tensor)
    return tensor


@patch("torch.multiprocessing.reductions.reduce_tensor", traits=Trait.CPU_TENSORS)
def sent_marks(context: Context) -> None:
    """A tensor on CUDA is on CUDA in the other process too: moving it there must not copy memory that both write."""
    original: Function = reductions.reduce_tensor
    marks = context.translator.marks
    _marks.append(marks)
    context.editor.on_undo(_marks.clear)

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        return (_marked, original(tensor)) if tensor in marks else original(tensor)

    # The apparent device of operator results is unknown.
    _send_with(context, reduce_tensor, lambda _: True)


def _answer_for_gpu(context: Context, name: str, answer: Function) -> None:
    """Make a tensor method return this answer for GPU tensors; ``__torch_function__`` is called as usual."""
    original: Function = getattr(torch.Tensor, name)
    on_gpu, has_torch_function_unary = context.on_gpu, torch.overrides.has_torch_function_unary

    def method(self: torch.Tensor) -> Any:
        return original(self) if not on_gpu(self) or has_torch_function_unary(self) else answer(self)

    context.editor.set(torch.Tensor, name, copy_metadata(method, original))


@patch("torch.Tensor.share_memory_", traits=Trait.UNSHARED)
def shared_memory(context: Context) -> None:
    """GPU memory cannot be shared: the call does nothing, as on CUDA; torch before 2.12 raises for other GPUs.

    A program that shares a redirected tensor gets a warning that says how to keep it on the CPU.
    """
    unasked = Trait.ACCELERATES in context.traits
    warned: set[str] = set()

    def share_memory_(x: torch.Tensor) -> torch.Tensor:
        if unasked and not warned:
            warned.add("share_memory_")
            warnings.warn_explicit(
                "memory of the GPU is not shared with other processes, they get copies: "
                "--policy faithful leaves on the CPU what does not name CUDA",
                UserWarning,
                *site(),
            )
        return x

    _answer_for_gpu(context, "share_memory_", share_memory_)


@patch("torch.storage.UntypedStorage.share_memory_", traits=Trait.UNSHARED)
def shared_storages(context: Context) -> None:
    """torch before 2.12 looks for the memory of sent storages on the CPU."""
    original: Function = torch.UntypedStorage.share_memory_
    device, kind = vars(torch._C.StorageBase)["device"].__get__, context.driver.device_type

    def share_memory_(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        return self if device(self).type == kind else original(self, *args, **kwargs)

    context.editor.set(torch.UntypedStorage, "share_memory_", copy_metadata(share_memory_, original))


@patch("torch.Tensor.is_shared", traits=Trait.UNSHARED)
def told_shared(context: Context) -> None:
    """CUDA tensors always report that they are shared; before 2.12 torch queries shared memory of other GPUs."""
    translator = context.translator
    _answer_for_gpu(
        context,
        "is_shared",
        lambda x: not (translator.tracks_apparent_devices and translator.apparent_devices.is_cpu(x)),
    )
