"""The program sees CUDA: a tensor on the Apple GPU says so when the program asks, and the truth when torch does.

``x.device`` is a property that looks at who asks: one look at the caller's module. Nothing else about tensors changes.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from ..finder import ShadowFinder
from .patches import Editor, patch
from .random import CudaGenerator
from .wrapping import disguise, install

_frame = sys._getframe
#: The roots of modules that are told the truth; torch.cuda is ours, and sees what the program sees.
_INSIDERS, _OURS = ("torch", "torchdevice_cuda"), ("torch.cuda", "torch.cuda.")
_CUDA = torch.device("cuda", 0)
#: The real devices, and what the program is told they are.
_ANSWERS = {torch.device("mps", 0): _CUDA, torch.device("mps"): _CUDA}


#: The names that torch's own getters have while others stand in their places.
_OWN_NAMES = {"device": "_torchdevice_device", "is_cuda": "_torchdevice_is_cuda", "is_mps": "_torchdevice_on_gpu"}


class _Insiders(dict):
    """Whether code of a module is told the truth, remembered by the module's name."""

    def __missing__(self, module: str | None) -> bool:
        name = module or ""
        ours = name == _OURS[0] or name.startswith(_OURS[1])
        inside = self[module] = name.partition(".")[0] in _INSIDERS and not ours
        return inside


_inside = _Insiders()


def _masked(getter: Callable[[Any], Any], on_gpu: Callable[[Any], bool], answer: Any) -> property:
    """A property that is ``answer`` for what lies on the GPU when the program asks, and the real one otherwise."""

    def read(self: Any) -> Any:
        if on_gpu(self) and not _inside[_frame(1).f_globals.get("__name__")]:
            return answer
        return getter(self)

    return property(read, doc=getattr(getter, "__doc__", None))


def as_program(function: types.FunctionType) -> types.FunctionType:
    """A copy of a function of torch that is told what the program is told."""
    names = {**function.__globals__, "__name__": "__program__"}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copy, function, updated=("__dict__",))


def _by_caller(original: types.FunctionType) -> Callable[..., Any]:
    """A function of torch that tells the program what the program is to see, and torch the truth."""
    shown = as_program(original)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        inside = _inside[_frame(1).f_globals.get("__name__")]
        return (original if inside else shown)(*args, **kwargs)

    return wrapper


def _wanted(editor: Editor) -> bool:
    return editor.settings.identity == "cuda"


@patch("mps")
def tensors(editor: Editor, driver: Driver) -> None:
    """Tensors on the GPU say ``cuda:0``, are CUDA's and not MPS's.

    torch's own getters get further names, under which an attribute costs what it always does; calling them as functions
    costs four times as much, and these are the attributes that programs read most.
    """
    if not _wanted(editor):
        return
    for name, own in _OWN_NAMES.items():
        editor.set(torch.Tensor, own, vars(torch._C.TensorBase)[name])
    readers = ((_device, "device"), (_is_cuda, "is_cuda"), (_is_mps, "is_mps"))
    for read, name in readers:
        editor.set(torch.Tensor, name, property(read, doc=vars(torch._C.TensorBase)[name].__doc__))


def _device(self: Any) -> torch.device:
    if self._torchdevice_on_gpu:
        try:
            if _inside[_frame(1).f_globals["__name__"]]:
                return self._torchdevice_device
        except KeyError:  # code that was executed without a name is the program's
            pass
        return _CUDA
    return self._torchdevice_device


def _is_cuda(self: Any) -> bool:
    if self._torchdevice_on_gpu:
        return not _inside[_frame(1).f_globals.get("__name__")]
    return self._torchdevice_is_cuda


def _is_mps(self: Any) -> bool:
    return self._torchdevice_on_gpu and _inside[_frame(1).f_globals.get("__name__")]


@patch("mps")
def storages(editor: Editor, driver: Driver) -> None:
    """A storage says what its tensor says."""
    if not _wanted(editor):
        return
    device = torch._C.StorageBase.device.__get__

    def of_untyped(self: Any) -> torch.device:
        return device(self)

    def of_typed(self: Any) -> torch.device:
        return device(self._untyped_storage)

    for owner, device_of in ((torch.UntypedStorage, of_untyped), (torch.TypedStorage, of_typed)):

        def on_gpu(self: Any, _device_of: Callable[[Any], torch.device] = device_of) -> bool:
            return _device_of(self).type == driver.device_type

        def on_cuda(self: Any, _device_of: Callable[[Any], torch.device] = device_of) -> bool:
            return _device_of(self).type == "cuda"

        editor.set(owner, "device", _masked(device_of, on_gpu, _CUDA))
        editor.set(owner, "is_cuda", _masked(on_cuda, on_gpu, True))


@patch("mps")
def storage_names(editor: Editor, driver: Driver) -> None:
    """How a storage prints, the name of its type, and ``isinstance(s, torch.cuda.FloatStorage)``."""
    if not _wanted(editor):
        return
    from torch import storage

    for owner, name in (
        (storage._StorageBase, "__repr__"),
        (storage.TypedStorage, "__str__"),
        (storage.TypedStorage, "_get_legacy_storage_class"),
        (storage._LegacyStorageMeta, "__instancecheck__"),
    ):
        editor.set(owner, name, as_program(vars(owner)[name]))


@patch("mps")
def exchange(editor: Editor, driver: Driver) -> None:
    """``__dlpack_device__`` names CUDA to the program, and ``__cuda_array_interface__`` is there.

    Under ``accelerate`` data comes home before it is exchanged.
    """
    if not _wanted(editor):
        return
    if editor.translator.unasked is None:
        name = "__dlpack_device__"
        editor.set(torch.Tensor, name, _by_caller(vars(torch.Tensor)[name]))
    original = vars(torch.Tensor)["__cuda_array_interface__"]
    editor.set(torch.Tensor, "__cuda_array_interface__", property(as_program(original.fget), doc=original.__doc__))


@patch("mps")
def data_parallel(editor: Editor, driver: Driver) -> None:
    """DataParallel compares its parameters' device with the ``cuda:i`` it made itself."""
    if not _wanted(editor):
        return
    from torch.nn import parallel

    editor.set(parallel.DataParallel, "forward", as_program(parallel.DataParallel.forward))
    for owner in (parallel, sys.modules["torch.nn.parallel.data_parallel"]):
        editor.set(owner, "data_parallel", as_program(owner.data_parallel))


@patch("mps")
def generators(editor: Editor, driver: Driver) -> None:
    """The default generators say that they are CUDA's; those that the program makes do by themselves."""
    if not _wanted(editor):
        return

    def shown(generator: torch.Generator) -> torch.Generator:
        return CudaGenerator.over(generator, _CUDA)

    def read(self: CudaGenerator) -> torch.device:
        return device(self) if _inside[_frame(1).f_globals.get("__name__")] else self._shown

    device = vars(CudaGenerator.__base__)["device"].__get__
    editor.set(CudaGenerator, "device", property(read, doc="The device that the generator draws on."))
    editor.set(driver, "shown", shown)


@patch("mps")
def packed_sequences(editor: Editor, driver: Driver) -> None:
    """A packed sequence asks its data, from torch's own code, whether it is CUDA's."""
    if not _wanted(editor):
        return
    from torch.nn.utils.rnn import PackedSequence

    editor.set(PackedSequence, "is_cuda", property(lambda self: self.data.device.type in ("cuda", driver.device_type)))


@patch("mps")
def traced_tensors(editor: Editor, driver: Driver) -> None:
    """``torch.compile`` reads a tensor's device itself and folds it into the graph: as the traced code is to see it."""
    if not _wanted(editor):
        return
    name = "torch._dynamo.variables.tensor"
    if name in sys.modules:
        _trace_as_program(editor, sys.modules[name])
        return
    finder = ShadowFinder(after={name: lambda module: _trace_as_program(editor, module)})
    finder.install()
    editor.on_undo(finder.remove)


def _trace_as_program(editor: Editor, module: types.ModuleType) -> None:
    """Have traced code of the program fold CUDA's answers, and traced code of torch the real ones.

    The methods look at nothing of the traced tensor but its device: a stand-in has the one that is to be seen.
    """
    traced = module.TensorVariable
    device, is_cuda = traced.method_attr_device, traced.method_attr_is_cuda
    on_cuda, elsewhere = types.SimpleNamespace(device=_CUDA), types.SimpleNamespace(device=torch.device("cpu"))

    def masked(self: Any, tx: Any) -> bool:
        return self.device in _ANSWERS and not _inside[tx.f_globals.get("__name__")]

    def method_attr_device(self: Any, tx: Any) -> Any:
        return device(on_cuda if masked(self, tx) else self, tx)

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        return is_cuda(on_cuda if masked(self, tx) else self, tx)

    def method_attr_is_mps(self: Any, tx: Any) -> Any:
        return is_cuda(on_cuda if self.device in _ANSWERS and not masked(self, tx) else elsewhere, tx)

    for replacement in (method_attr_device, method_attr_is_cuda, method_attr_is_mps):
        editor.set(traced, replacement.__name__, replacement)


@patch("mps")
def fake_tensors(editor: Editor, driver: Driver) -> None:
    """Fake tensors, which stand for real ones while programs are traced, have a device of their own."""
    if not _wanted(editor):
        return
    from torch._subclasses.fake_tensor import FakeTensor

    original = vars(FakeTensor)["device"]

    def read(self: Any) -> torch.device:
        found = original.fget(self)
        return found if _inside[_frame(1).f_globals.get("__name__")] else _ANSWERS.get(found, found)

    editor.set(FakeTensor, "device", property(read, original.fset, doc=original.__doc__))


@patch("mps")
def type_names(editor: Editor, driver: Driver) -> None:
    """``x.type()`` names the class that ``torch.cuda`` has for it."""
    if not _wanted(editor):
        return
    original = torch.Tensor.type
    prefix, shown = f"torch.{driver.device_type}.", "torch.cuda."

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        return shown + found[len(prefix) :] if found.__class__ is str and found.startswith(prefix) else found

    install(editor, torch.Tensor, "type", disguise(wrapper, original), original)


@patch("mps")
def availability(editor: Editor, driver: Driver) -> None:
    """Libraries that find an Apple GPU choose it before CUDA, and then do without CUDA's features: they find CUDA."""
    if not _wanted(editor):
        return
    for name in ("is_available", "is_built"):
        original = getattr(torch.backends.mps, name)

        def answer(_original: Callable[[], bool] = original) -> bool:
            return bool(_inside[_frame(1).f_globals.get("__name__")]) and _original()

        editor.set(torch.backends.mps, name, disguise(answer, original))


@patch("mps")
def parsed_devices(editor: Editor, driver: Driver) -> None:
    """Libraries that parse the arguments of ``to`` themselves keep the device they find there, and show it."""
    if not _wanted(editor):
        return
    original = torch._C._nn._parse_to

    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        device, *rest = original(*args, **kwargs)
        if device in _ANSWERS and not _inside[_frame(1).f_globals.get("__name__")]:
            device = _CUDA
        return (device, *rest)

    editor.set(torch._C._nn, "_parse_to", _parse_to)


@patch("mps")
def numpy_refusal(editor: Editor, driver: Driver) -> None:
    """Where ``x.numpy()`` is refused for a tensor on the GPU, the refusal names the device that the program knows."""
    if not _wanted(editor) or editor.translator.unasked is not None:
        return
    original = torch.Tensor.numpy

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except TypeError:
            if self.device.type != driver.device_type:
                raise
        raise TypeError(
            f"can't convert {_CUDA} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )

    install(editor, torch.Tensor, "numpy", disguise(wrapper, original), original)


@patch("mps")
def lengths_refusal(editor: Editor, driver: Driver) -> None:
    """``pack_padded_sequence`` refuses lengths on the GPU, and its refusal names the device that the program knows."""
    if not _wanted(editor) or editor.translator.unasked is not None:
        return
    from torch.nn.utils import rnn

    original = rnn._VF._pack_padded_sequence

    class Functions:
        """torch._VF as the module sees it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(torch._VF, name)

        @staticmethod
        def _pack_padded_sequence(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
            if lengths.device in _ANSWERS:
                kind = lengths.type().rpartition(".")[2].removesuffix("Tensor")
                raise RuntimeError(
                    "'lengths' argument should be a 1D CPU int64 tensor, but got "
                    f"{lengths.dim()}D {_CUDA} {kind} tensor"
                )
            return original(input, lengths, batch_first)

    editor.set(rnn, "_VF", Functions())


@patch("mps")
def printing(editor: Editor, driver: Driver) -> None:
    """``repr(x)`` shows the device that the program knows; everything else about printing goes by the real one."""
    if not _wanted(editor):
        return
    from torch import _tensor_str

    original = _tensor_str._add_suffixes
    real, shown = {f"device='{device}'" for device in _ANSWERS}, f"device='{_CUDA}'"

    def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
        return original(tensor_str, [shown if s in real else s for s in suffixes], indent, force_newline)

    editor.set(_tensor_str, "_add_suffixes", disguise(_add_suffixes, original))


@patch("mps")
def default_device(editor: Editor, driver: Driver) -> None:
    """``torch.get_default_device()`` makes a tensor to learn the device's index, and reads its real device."""
    if not _wanted(editor):
        return
    original = torch.get_default_device

    def get_default_device() -> torch.device:
        found = original()
        return _ANSWERS.get(found, found)

    install(editor, torch, "get_default_device", disguise(get_default_device, original), original)


@patch("mps")
def checkpoints(editor: Editor, driver: Driver) -> None:
    """A storage saved from the GPU is tagged as CUDA's: what a program saves here loads where it was written for."""
    if not _wanted(editor):
        return
    from torch import serialization

    def tag(storage: Any) -> str | None:
        return str(_CUDA) if storage.device.type == driver.device_type else None

    entry = (9, tag, lambda storage, location: None)  # before torch's own, which start at 10
    serialization._package_registry.append(entry)
    serialization._package_registry.sort(key=lambda row: row[0])
    editor.on_undo(lambda: serialization._package_registry.remove(entry))
