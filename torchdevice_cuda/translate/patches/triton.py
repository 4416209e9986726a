"""Triton, which compiles for NVIDIA GPUs: CUDA builds of torch include it, and inductor looks for it."""

from __future__ import annotations

import contextlib
import functools
import sys
from types import FunctionType, ModuleType
from typing import Any

from ... import rehearsal
from ..._compat import accelerator_error
from ...drivers.errors import ENDING, error_text, words_of
from ...drivers.recording.mode import refuse_unseen
from ...drivers.traits import Trait
from ...settings import sanitizer
from ..core.callers import inside
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_ASKED, _BACKENDS = "torch.utils._triton", "triton.backends"
_CLASS = f"{_BACKENDS}.nvidia.driver.CudaDriver"
_TUNING, _COMPILER = "triton.runtime.autotuner", "triton.compiler.compiler"


#: The module of torch that recognizes the program's kernels.
_RECOGNISES = "torch._dynamo.variables.builder"
_frame = sys._getframe


def _no(**_: bool) -> bool:
    return False


@patch(f"{_ASKED}.has_triton", traits=Trait.SUBSTITUTE, without=Trait.TRITON_CODE)
def detection(context: Context) -> None:
    """With a CUDA device and an importable triton, inductor assumes that Triton code runs on it, and generates it.

    The program gets the true answer, and so does the module that looks for the program's kernels in traced code.
    Modules bind the function when they are imported, so theirs returns False. The setting for that exists since 2.9
    only.
    """

    def deny(module: ModuleType) -> None:
        kept = module.has_triton  # a function that caches its answer
        function = kept.__wrapped__
        before = function.__code__
        truth = FunctionType(before, function.__globals__, closure=function.__closure__)
        truth.__kwdefaults__ = function.__kwdefaults__

        def undo() -> None:
            function.__code__ = before
            kept.cache_clear()

        function.__code__ = _no.__code__
        kept.cache_clear()
        context.editor.undone(f"{_ASKED}.has_triton", undo)

        @functools.wraps(function)
        def has_triton(**which: bool) -> bool:
            asking = _frame(1).f_globals.get("__name__")
            return bool(truth(**which)) if asking == _RECOGNISES or not inside[asking] else False

        has_triton.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        context.editor.set(module, "has_triton", has_triton)

    context.editor.on_undo(context.when_imported(_ASKED, context.editor.later(deny)))


_LOWERING, _WRAPPED = "torch._inductor.lowering", "torch._higher_order_ops.triton_kernel_wrap"


@patch(
    *(f"{_LOWERING}.lowerings", f"{_WRAPPED}.Triton<Kernel>.cacheable"),
    traits=Trait.SUBSTITUTE,
    without=Trait.TRITON_CODE,
)
def in_graphs(context: Context) -> None:
    """A kernel of the program in a compiled graph is launched as the program launches it.

    Inductor caches compiled graphs for other processes, where the launches would have other numbers.
    """

    def lower(module: ModuleType) -> None:
        import sympy
        from torch._higher_order_ops import triton_kernel_wrap as wrapped

        from ...triton.compiled import Calls

        operator, calls = wrapped.triton_kernel_wrapper_mutation, Calls()
        context.editor.on_undo(calls.forget)
        is_tensor: Function = lambda value: isinstance(value, module.TensorBox)  # noqa: E731
        is_number: Function = lambda value: isinstance(value, sympy.Expr)  # noqa: E731
        before = module.lowerings[operator]
        module.lowerings[operator] = calls.lowering(is_tensor, is_number)
        context.editor.undone(f"{_LOWERING}.lowerings", lambda: module.lowerings.__setitem__(operator, before))
        for each in (operator, wrapped.triton_kernel_wrapper_functional):
            context.editor.set(each, "cacheable", lambda: False)

    context.editor.on_undo(context.when_imported(_LOWERING, context.editor.later(lower)))


def _place(context: Context) -> Any:
    """Return the environment in which kernels run."""
    from ...triton.launching import Place
    from ...triton.memory import Lent, Memory, of_living_tensors

    native, on_gpu = context.driver.native, context.on_gpu
    compiles, tools = context.settings.triton == "compiled", context.settings.sanitize
    runs = context.settings.rehearse == rehearsal.OFF

    def lent(name: str, memory: Memory, work: Any) -> None:
        if context.left is not None:
            context.left(f"triton.{name}", "CPU", "Triton compiles for NVIDIA's GPUs; the CPU computes")
        refuse_unseen(f"the Triton kernel {name}")
        work()

    def beside(name: str, memory: Memory, work: Any) -> None:
        refuse_unseen(f"the Triton kernel {name}")
        work()

    if Trait.HOST_MEMORY not in context.traits:
        return Place(lambda: Lent(context.driver.loan()), on_gpu, lent, compiles, tools)
    if native is None:
        return Place(lambda: Memory(of_living_tensors), lambda tensor: True, beside, compiles, tools)

    def segments() -> list[tuple[int, int]]:
        found = native.snapshot(with_traces=False)["segments"]
        if sanitizer.MEMCHECK not in tools:
            return [(segment["address"], segment["total_size"]) for segment in found]
        blocks = [block for segment in found for block in segment["blocks"]]
        return [(block["address"], block["requested_size"]) for block in blocks if block["state"] == "active_allocated"]

    kind = accelerator_error()

    def on_device(name: str, memory: Memory, work: Any) -> None:
        index = native.get_device()
        if lost := native.lost(index):
            raise RuntimeError(f"Triton Error [CUDA]: {error_text(lost)}")
        captured = native.captures_underway() and native.begin_foreign_call(index, memory.ranges())
        again = None
        try:
            launch: Any = native.ForeignWork(name, index, memory.pointers)
            if rehearsal.is_timed():
                launch.describe(memory.counts, (size for _, size in memory.ranges()))
            with launch:
                if runs:
                    work()
                else:
                    rehearsal.report_kernel(name)
            again = work if captured and runs else None
        except kind as error:
            # On a GPU the launch itself succeeds; the next synchronization raises.
            code = getattr(error, "error_code", 0)
            if code not in ENDING:
                raise
            native.fail_context(index, code, words_of(code, getattr(error, "place", "")))
        finally:
            if captured:
                native.end_foreign_call(index, again, name, memory.pointers)

    return Place(lambda: Memory(segments), lambda t: on_gpu(t) or t.is_pinned(), on_device, compiles, tools)


@patch(f"{_CLASS}.__init__", "triton.runtime.driver.driver", f"{_COMPILER}.<Source>.make_ir", traits=Trait.SUBSTITUTE)
def drivers(context: Context) -> None:
    """Triton's driver queries NVIDIA's for the GPU and launches kernels through it: here the host answers and computes.

    The class is found through Triton's table of drivers: triton 3.2, of torch 2.6, loads their modules without a name.
    """

    made: list[Any] = []  # created at the first launch

    def answer(module: ModuleType) -> None:
        kind = module.backends["nvidia"].driver
        init = _driver(context, kind.__mro__[1].__init__, made)
        context.editor.set(kind, "__init__", init, target=f"{_CLASS}.__init__")

    def take_turns(module: ModuleType) -> None:
        """Make a kernel that is compiled in one thread wait for kernels that run in others."""
        original = module.ASTSource.make_ir

        def make_ir(self: Any, *args: Any, **kwargs: Any) -> Any:
            with made[0].compiling() if made else contextlib.nullcontext():
                return original(self, *args, **kwargs)

        context.editor.set(module.ASTSource, "make_ir", copy_metadata(make_ir, original))

    def forget(module: ModuleType) -> None:
        active = module.driver
        renewed = type(active)
        context.editor.undone("triton.runtime.driver.driver", lambda: vars(active).update(vars(renewed())))

    context.editor.on_undo(context.when_imported(_BACKENDS, context.editor.later(answer)))
    context.editor.on_undo(context.when_imported("triton.runtime.driver", context.editor.later(forget)))
    context.editor.on_undo(context.when_imported(_COMPILER, context.editor.later(take_turns)))


def _driver(context: Context, for_any_gpu: Function, launches: list[Any]) -> Function:
    """Create Triton's driver over an emulated GPU."""

    def launcher(source: Any, metadata: Any) -> Any:
        from ...triton.launching import Launches

        if not launches:
            launches.append(Launches(_place(context)))
        return launches[0].launcher(source, metadata)

    def __init__(self: Any) -> None:
        from triton.compiler import CompiledKernel

        from ...triton.driver import Utilities

        names = CompiledKernel._init_handles.__code__.co_names
        self.utils = Utilities(context.driver, 5 if "n_max_threads" in names else 4)
        self.launcher_cls = launcher
        for_any_gpu(self)

    return __init__


@patch(f"{_TUNING}.Autotuner._bench", f"{_TUNING}.Autotuner.run", traits=Trait.SUBSTITUTE)
def tuning(context: Context) -> None:
    """An interpreter's times say nothing about a GPU's: the first configuration that can be launched is used."""

    def choose(module: ModuleType) -> None:
        from ...triton.tuning import first_valid

        kind = module.Autotuner
        for name, replacement in first_valid(kind).items():
            context.editor.set(kind, name, copy_metadata(replacement, vars(kind)[name]))

    context.editor.on_undo(context.when_imported(_TUNING, context.editor.later(choose)))
