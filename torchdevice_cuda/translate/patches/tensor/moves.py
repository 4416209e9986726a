"""``Tensor.to``, ``cuda`` and ``cpu``: moves, whose device is translated."""

from __future__ import annotations

from typing import Any

import torch

from ....drivers.traits import Trait
from ....fallback.refusals import NARROW
from ...core.context import Context
from ...core.conversions import on_refusal
from ...core.moving import Arguments, Keywords, copying, crossing, mover
from ...core.precision import COMPLEX128, refuse_complex128
from ...core.registry import patch
from ...core.requests import Translator, as_device, names_a_device
from ...core.retry import given_second_try
from ...core.wrapping import PLAIN, hand, install, modes

_NON_BLOCKING = 2  # its position in ``Tensor.to(device, dtype, non_blocking, copy)``


@patch("torch.Tensor.to", traits=Trait.REDIRECTS, without=Trait.PARTIAL)
def to(context: Context) -> None:
    """Tensor.to with a device, by position or by name; with a dtype or another tensor it needs no translation."""
    original = torch.Tensor.to
    move = mover(context)
    translator, marks = context.translator, context.translator.marks
    known, marked = translator.on_gpu, marks.refs.get
    device_class, dtype_class, tracing = torch.device, torch.dtype, torch._C._get_tracing_state
    on_cpu = Trait.CPU_TENSORS in context.traits

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        if args:
            asked = args[0]
            kind = asked.__class__
            if kind is str or kind is device_class:
                # The most common case: the tensor is there already. (Only host tensors have marks.)
                if asked in known and not kwargs and len(args) == 1:
                    mark = marked(id(self))
                    if mark is not None and mark() is self and tracing() is None:
                        return self
            elif kind is dtype_class or asked is None:
                return original(self, *args, **kwargs) if kwargs else original(self, *args)
            elif isinstance(asked, torch.Tensor):
                if on_cpu and asked in marks and self not in marks:
                    return move(self, True, translator.device("cuda"), (asked.dtype, *args[1:]), kwargs)
                return original(self, *args, **kwargs)
            elif not names_a_device(asked):
                return original(self, *args, **kwargs)
            target = translator.device(asked)
            return move(self, translator.names_accelerator(asked), target, args[1:], kwargs)
        asked = kwargs.get("device")
        if asked is None or not names_a_device(asked):
            return original(self, *args, **kwargs)
        del kwargs["device"]
        if not kwargs and asked in known:
            mark = marked(id(self))
            if mark is not None and mark() is self and tracing() is None:
                return self
        target = translator.device(asked)
        return move(self, translator.names_accelerator(asked), target, (), kwargs)

    install(context, torch.Tensor, "to", wrapper, original)


def _cuda_target(translator: Translator, device: Any) -> torch.device:
    """Return the target of ``Tensor.cuda(device)``, or raise CUDA's error for an invalid device."""
    asked = "cuda" if device is None else device
    target = translator.device(asked)
    if as_device(asked).type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device but got {torch.device(asked)}")
    return target


@patch("torch.Tensor.cuda", traits=Trait.CPU_TENSORS)
def cuda(context: Context) -> None:
    """Tensor.cuda: a move to the current CUDA device, or to the given one."""
    original = torch.Tensor.cuda
    move = mover(context)
    translator, driver, marked = context.translator, context.driver, context.translator.marks.refs.get
    tracing, counted = torch._C._get_tracing_state, Trait.COUNTED in context.traits

    def arguments(
        device: Any = None, non_blocking: bool = False, memory_format: torch.memory_format = torch.preserve_format
    ) -> tuple[Any, dict[str, Any]]:
        kwargs: Keywords = {"non_blocking": True} if non_blocking else {}
        if memory_format is not torch.preserve_format:
            kwargs["memory_format"] = memory_format
        return device, kwargs

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        if not args and not kwargs and not counted:
            mark = marked(id(self))
            if mark is not None and mark() is self and tracing() is None:
                return self
        device, rest = arguments(*args, **kwargs)
        if driver.needs_init:
            torch.cuda._lazy_init()
        return move(self, True, _cuda_target(translator, device), (), rest)

    install(context, torch.Tensor, "cuda", wrapper, original)


@patch("torch.Tensor.cpu", traits=Trait.REDIRECTS, without=Trait.PARTIAL)
def cpu(context: Context) -> None:
    """Tensor.cpu: a request for the CPU like any other."""
    original = torch.Tensor.cpu
    move = mover(context)
    translator, marks = context.translator, context.translator.marks
    on_cpu, counted = Trait.CPU_TENSORS in context.traits, Trait.COUNTED in context.traits

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        if on_cpu and not counted and self not in marks:
            return original(self, *args, **kwargs)
        target = translator.device("cpu")
        if (self not in marks) if on_cpu else target.type == "cpu":
            return original(self, *args, **kwargs)
        if args:
            kwargs["memory_format"] = args[0]
        return move(self, False, target, (), kwargs)

    install(context, torch.Tensor, "cpu", wrapper, original)


@patch("torch.Tensor.cuda", traits=Trait.COUNTED, without=Trait.TRANSLATED)
def cuda_counted(context: Context) -> None:
    """Tensor.cuda on real CUDA: nothing is translated, but a report counts it."""
    original, translator = torch.Tensor.cuda, context.translator

    def asked_for(device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        return "cuda" if device is None else device

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        moved = original(self, *args, **kwargs)
        translator.count(asked_for(*args, **kwargs), moved.device)
        return moved

    install(context, torch.Tensor, "cuda", wrapper, original)


@patch("torch.Tensor.cpu", traits=Trait.PARTIAL | Trait.COUNTED, without=Trait.ACCELERATES)
def cpu_counted(context: Context) -> None:
    """Tensor.cpu if requests for the CPU are not redirected: a report counts it."""
    original, translator = torch.Tensor.cpu, context.translator

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        translator.device("cpu")
        return original(self, *args, **kwargs)

    install(context, torch.Tensor, "cpu", wrapper, original)


@patch("torch.Tensor.cuda", traits=Trait.ACCELERATES, without=Trait.TRANSLATED)
def cuda_apart(context: Context) -> None:
    """Tensor.cuda of a tensor that was redirected to the GPU copies, as from the CPU."""
    original, move, crosses = torch.Tensor.cuda, torch._C.TensorBase.to, crossing(context)
    believe = context.translator.apparent_devices.add_cuda

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        moved = original(self, *args, **kwargs)
        return believe(move(self, self.device, copy=True) if moved is self and crosses(self, True) else moved)

    install(context, torch.Tensor, "cuda", wrapper, original)


@patch("torch.Tensor.to", traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """Tensor.to understands ``cuda`` and ``cpu`` itself; ``mps`` and the toggle are translated when it fails."""
    given_second_try(context, "torch.Tensor.to", torch._C.TensorBase.to, place=1)


# ---- accelerators that lack dtypes
@patch("torch.Tensor.to", traits=Trait.PARTIAL)
def to_partial(context: Context) -> None:
    """Tensor.to with a device, by position or by name, is translated; float64 follows the setting.

    Where copies race, asynchronous ones are not safe: a copy to the CPU can be read before it has arrived, and the
    program can change the source of a copy from memory that is not the GPU's too early. All copies wait there.

    If requests for the CPU go to the GPU too, a move between the two still copies: a program changes one tensor and
    continues with the other.
    """
    original = torch.Tensor.to
    translator, driver, gpu = context.translator, context.driver, context.gpu
    known, observe = translator.on_gpu, driver.memory.observe
    after_refusal, device_class, dtype_class = on_refusal(context, "to"), torch.device, torch.dtype
    redirects, crosses = translator.default_target is not None, crossing(context)
    apparent_devices, carry, on_gpu = translator.apparent_devices, translator.apparent_devices.carry, context.on_gpu
    waits = Trait.RACING_COPIES in context.traits

    def translated(args: Arguments, kwargs: Keywords) -> tuple[Arguments, Keywords]:
        """Return the arguments of a move with the real device, and blocking if copies race."""
        asked = args[0] if args else kwargs.get("device")
        if asked is None or not names_a_device(asked):
            return args, kwargs
        target = translator.device(asked)
        if driver.needs_init and target in gpu:
            torch.cuda._lazy_init()
        if args:
            args = (target, *args[1:])
        else:
            kwargs["device"] = target
        if not waits or driver.streams.watched:  # it waits then, too: for the flag it is not reported
            return args, kwargs
        if kwargs.get("non_blocking") is True:
            kwargs["non_blocking"] = False
        elif len(args) > _NON_BLOCKING and args[_NON_BLOCKING] is True:
            args = (*args[:_NON_BLOCKING], False, *args[_NON_BLOCKING + 1 :])
        return args, kwargs

    def believed(self: torch.Tensor, moved: torch.Tensor, wants_gpu: bool) -> torch.Tensor:
        if wants_gpu:
            return apparent_devices.add_cuda(moved)
        return moved if moved is self else apparent_devices.add_cpu(moved)

    def redirected(self: torch.Tensor, args: Arguments, kwargs: Keywords) -> torch.Tensor:
        """Perform a move if requests for the CPU go to the GPU too."""
        asked = args[0] if args else kwargs.get("device")
        if isinstance(asked, torch.Tensor) and on_gpu(asked):  # its apparent device
            wants_gpu, rest = not apparent_devices.is_cpu(asked), (asked.dtype, *args[1:])
            if crosses(self, wants_gpu):
                rest, kwargs = copying(rest, kwargs)
            return believed(self, original(self, asked.device, *rest, **kwargs), wants_gpu)
        if asked is None or not names_a_device(asked):
            return carry(self, original(self, *args, **kwargs))
        args, kwargs = translated(args, kwargs)
        wants_gpu = translator.names_accelerator(asked)
        to_gpu = (args[0] if args else kwargs["device"]) in gpu
        if to_gpu and crosses(self, wants_gpu):
            rest, kwargs = copying(args[1:], kwargs)
            args = (*args[:1], *rest)
        moved = original(self, *args, **kwargs)
        return believed(self, moved, wants_gpu) if to_gpu else moved

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        try:
            if redirects:
                moved = redirected(self, args, kwargs)
            elif kwargs or len(args) != 1:
                args, kwargs = translated(args, kwargs)
                moved = original(self, *args, **kwargs)
            else:
                asked = args[0]
                if asked.__class__ is str or asked.__class__ is device_class:
                    target = known.get(asked)
                    if target is None or driver.needs_init:
                        ((target,), _) = translated(args, kwargs)
                    moved = original(self, target)
                elif asked.__class__ is dtype_class:
                    moved = original(self, asked)
                    if asked is not COMPLEX128:
                        return moved
                else:
                    args, kwargs = translated(args, kwargs)
                    moved = original(self, *args)
            if moved.dtype is COMPLEX128:
                refuse_complex128(moved)
        except (TypeError, RuntimeError) as error:
            return after_refusal(error, self, args, kwargs)
        if moved is not self:
            observe()
        return moved

    install(context, torch.Tensor, "to", wrapper, original)


@patch("torch.Tensor.cuda", traits=Trait.PARTIAL)
def cuda_partial(context: Context) -> None:
    """Tensor.cuda: a move to the GPU."""
    original, move = torch.Tensor.cuda, torch._C.TensorBase.to
    translator, driver, observe = context.translator, context.driver, context.driver.memory.observe
    after_refusal, target = on_refusal(context, "cuda"), torch.device(driver.device_type, 0)
    redirects, crosses = translator.default_target is not None, crossing(context)
    counted, believe = Trait.COUNTED in context.traits, translator.apparent_devices.add_cuda

    def arguments(
        device: Any = None, non_blocking: bool = False, memory_format: torch.memory_format = torch.preserve_format
    ) -> torch.memory_format:
        _cuda_target(translator, device)  # raises CUDA's errors; there is one device
        return memory_format

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        if driver.needs_init:
            torch.cuda._lazy_init()
        memory_format = arguments(*args, **kwargs) if args or kwargs or counted else torch.preserve_format
        try:
            copy = redirects and crosses(self, True)
            if memory_format is torch.preserve_format and not copy:
                moved = move(self, target)
            else:
                moved = move(self, target, copy=copy, memory_format=memory_format)
            if moved.dtype is COMPLEX128:
                refuse_complex128(moved)
        except (TypeError, RuntimeError) as error:
            return after_refusal(error, self, args, kwargs)
        if moved is not self:
            observe()
        return believe(moved) if redirects else moved

    install(context, torch.Tensor, "cuda", wrapper, original)


@patch("torch.Tensor.cpu", traits=Trait.PARTIAL | Trait.ACCELERATES)
def cpu_partial(context: Context) -> None:
    """Tensor.cpu is a request for the CPU like any other, if those are redirected."""
    translator, gpu, crosses = context.translator, context.gpu, crossing(context)
    original, move, observe = torch.Tensor.cpu, torch._C.TensorBase.to, context.driver.memory.observe

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        target = translator.device("cpu")
        if target not in gpu:
            return original(self, *args, **kwargs)
        if args:
            kwargs["memory_format"] = args[0]
        if self.dtype in NARROW:
            moved = context.precision.admit(self)
        else:
            moved = move(self, target, copy=crosses(self, False), **kwargs)
        observe()
        return moved if moved is self else translator.apparent_devices.add_cpu(moved)

    install(context, torch.Tensor, "cpu", wrapper, original)
