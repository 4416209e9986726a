"""``torch.compile``: inductor over the driver's devices, and the devices that traced code sees."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...drivers.recording.mode import recording_here
from ...drivers.traits import Trait
from ...report.unsupported import not_supported
from ..core.callers import inside
from ..core.context import Context
from ..core.disguise import CUDA, disguised
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

if TYPE_CHECKING:
    from ...drivers.recording.mode import Recording

_frame = sys._getframe
_WRAPPER = torch._TorchCompileInductorWrapper
_CALL = "torch._TorchCompileInductorWrapper.__call__"
_watched = torch._C._len_torch_dispatch_stack


def _before_compiling(context: Context, prepare: Function) -> None:
    """Call a function whenever inductor is about to compile: it is only imported then."""
    original: Function = _WRAPPER.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        prepare()
        return original(self, *args, **kwargs)

    context.editor.set(_WRAPPER, "__call__", copy_metadata(__call__, original))


def _one_call(recording: Recording, call: Function, inputs: Any, written: list[torch.Tensor]) -> Any:
    """Record compiled code as one call of a graph that is being captured."""
    given = tuple(inputs)
    if isinstance(inputs, list):
        inputs.clear()  # as the code does, to release them
    return recording.foreign("compiled code", lambda *args: call(list(args)), given, written)


def _as_it_is(call: Function) -> Function:
    """Return the code unchanged: a compiled device records by itself."""
    return call


def _recorded(call: Function) -> Function:
    """Wrap the CPU code that an emulated Apple GPU calls, which takes a seed of the GPU, so that a graph records it."""

    def __call__(inputs: Any) -> Any:
        recording = recording_here() if _watched() else None
        if recording is None:
            return call(inputs)
        return _one_call(recording, call, inputs, [value for value in inputs if isinstance(value, torch.Tensor)])

    __call__._boxed_call = True  # type: ignore[attr-defined]
    return __call__


_CACHE = "enable_autograd_cache"


@patch(
    *(_CALL, "torch._inductor.compile_fx.compile_fx", f"torch._functorch.config.{_CACHE}"),
    traits=Trait.NATIVE,
    without=Trait.TRITON_CODE,
)
def inductor(context: Context) -> None:
    """For ``cuda`` inductor generates Triton; graphs for a compiled device use its C++ backend instead."""
    native = context.driver.native
    done: list[bool] = []
    if native is None:  # no device is visible to the program
        return

    def prepare() -> None:
        if done:
            return
        done.append(True)
        import torch._functorch.config as config
        import torch._inductor.compile_fx as module

        from ...native.inductor import compiling

        # Its entries contain inductor's own objects without the wrapper. Inductor's graph cache still works.
        context.editor.configure(config, _CACHE, False)
        around = _recorded if Trait.TRANSLATED in context.traits else _as_it_is
        changed = compiling(native, module.compile_fx, module.compile_fx_inner, around)
        context.editor.set(module, "compile_fx", changed)

    context.editor.on_undo(done.clear)
    _before_compiling(context, context.editor.later(prepare))


_SCHEDULER = "torch._inductor.scheduler"


@patch(f"{_SCHEDULER}.Scheduler.codegen_extern_call", traits=Trait.NATIVE, without=Trait.TRITON_CODE)
def calls_in_order(context: Context) -> None:
    """The C++ backend collects loops and writes them late: a call without a device, to a stream or an event, would be
    written before the loops that it orders.
    """

    def flush(module: types.ModuleType) -> None:
        original: Function = module.Scheduler.codegen_extern_call

        def codegen_extern_call(self: Any, scheduler_node: Any) -> Any:
            if scheduler_node.get_device() is None:
                self.flush()
            return original(self, scheduler_node)

        context.editor.set(module.Scheduler, "codegen_extern_call", copy_metadata(codegen_extern_call, original))

    context.editor.on_undo(context.when_imported(_SCHEDULER, context.editor.later(flush)))


_COMPILER = "torch._inductor.compile_fx"


@patch(f"{_COMPILER}.compile_fx_aot", traits=Trait.NATIVE)
def ahead_of_time(context: Context) -> None:
    """AOTInductor builds a library for the GPU itself; here there is only the host, which the message states."""
    if context.driver.native is None:
        return
    on_gpu, tensor = context.on_gpu, torch.Tensor

    def refuse(module: types.ModuleType) -> None:
        original: Function = module.compile_fx_aot

        def compile_fx_aot(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
            used = [*example_inputs_, *model_.parameters(), *model_.buffers()]
            if any(isinstance(value, tensor) and on_gpu(value) for value in used):
                raise not_supported(
                    "AOTInductor",
                    "AOTInductor compiles ahead of time for a real GPU, and this one is emulated in host memory. "
                    "Export the program with its tensors on the CPU, or use torch.compile.",
                )
            return original(model_, example_inputs_, *args, **kwargs)

        context.editor.set(module, "compile_fx_aot", copy_metadata(compile_fx_aot, original))

    context.editor.on_undo(context.when_imported(_COMPILER, context.editor.later(refuse)))


@patch(_CALL, traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def kind_of_gpu(context: Context) -> None:
    """Inductor expects one kind of GPU on a machine; it finds CUDA, which is emulated, beside MPS, which is real."""
    kind = context.driver.device_type

    def prepare() -> None:
        """Make it find the right one, once: it caches the answer, and all its modules share the function."""
        from torch._inductor import utils

        if kind not in utils.GPU_TYPES or utils.get_gpu_type.cache_info().currsize:
            return
        every = list(utils.GPU_TYPES)
        utils.GPU_TYPES[:] = [kind]
        try:
            utils.get_gpu_type()
        finally:
            utils.GPU_TYPES[:] = every
        context.editor.on_undo(utils.get_gpu_type.cache_clear)

    _before_compiling(context, prepare)


_OUTPUT = "torch._inductor.output_code"


@patch(f"{_OUTPUT}.CompiledFxGraph.__call__", traits=Trait.TRANSLATED)
def in_captures(context: Context) -> None:
    """Compiled code reads and writes memory without the dispatcher: a captured CUDA graph records it as one call."""

    def record(module: types.ModuleType) -> None:
        original: Function = module.CompiledFxGraph.__call__

        def __call__(self: Any, inputs: Any) -> Any:
            recording = recording_here() if _watched() else None
            if recording is None:
                return original(self, inputs)
            written = [inputs[place] for place in self.mutated_input_idxs]
            return _one_call(recording, functools.partial(original, self), inputs, written)

        context.editor.set(module.CompiledFxGraph, "__call__", copy_metadata(__call__, original))

    context.editor.on_undo(context.when_imported(_OUTPUT, context.editor.later(record)))


_TRACED = "torch._dynamo.variables.tensor"


@patch(*(f"{_TRACED}.TensorVariable.method_{name}" for name in ("attr_<name>", "get_device")), traits=Trait.DISGUISED)
def traced_tensors(context: Context) -> None:
    """``torch.compile`` folds a tensor's device into the graph: traced code must see the apparent one."""
    change = context.editor.later(functools.partial(_trace_as_program, context))
    context.editor.on_undo(context.when_imported(_TRACED, change))


def _trace_as_program(context: Context, module: types.ModuleType) -> None:
    """Fold CUDA's answers into traced code of the program, and the real ones into traced code of torch.

    The memory of a traced tensor is not tracked: it reports the CPU until the program requests CUDA.

    The methods read only the device of the traced tensor, so they get a stand-in with the apparent device.
    """
    traced, gpu, believes_in_cpu = module.TensorVariable, context.gpu, context.translator.believes_in_cpu
    device, is_cuda, get_device = traced.method_attr_device, traced.method_attr_is_cuda, traced.method_get_device
    on_cuda, elsewhere = types.SimpleNamespace(device=CUDA), types.SimpleNamespace(device=torch.device("cpu"))

    def masked(self: Any, tx: Any) -> bool:
        return self.device in gpu and not inside[tx.f_globals.get("__name__")]

    def seen(self: Any, tx: Any) -> Any:
        if not masked(self, tx):
            return self
        return elsewhere if believes_in_cpu() else on_cuda

    def method_attr_device(self: Any, tx: Any) -> Any:
        return device(seen(self, tx), tx)

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        return is_cuda(seen(self, tx), tx)

    def method_attr_is_mps(self: Any, tx: Any) -> Any:
        return is_cuda(on_cuda if self.device in gpu and not masked(self, tx) else elsewhere, tx)

    def method_attr_is_cpu(self: Any, tx: Any) -> Any:
        return is_cuda(on_cuda if seen(self, tx).device.type == "cpu" else elsewhere, tx)

    def method_get_device(self: Any, *tx: Any) -> Any:  # torch before 2.7 does not pass it
        return get_device(elsewhere if self.device in gpu and believes_in_cpu() else self, *tx)

    replacements: list[Function] = [method_attr_device, method_attr_is_cuda, method_attr_is_mps]
    if context.translator.tracks_apparent_devices:
        replacements += [method_attr_is_cpu, method_get_device]
    for replacement in replacements:
        context.editor.set(traced, replacement.__name__, replacement)


@patch("torch._subclasses.fake_tensor.FakeTensor.device", traits=Trait.DISGUISED)
def fake_tensors(context: Context) -> None:
    """Fake tensors, which stand for real ones during tracing, have their own device attribute."""
    original = vars(FakeTensor)["device"]

    def read(self: Any) -> Any:
        found = original.fget(self)
        return found if inside[_frame(1).f_globals.get("__name__")] else disguised(context, found)

    context.editor.set(FakeTensor, "device", property(read, original.fset, doc=original.__doc__))
