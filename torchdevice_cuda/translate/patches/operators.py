"""Operators that the accelerator's backend lacks, or refuses for a dtype: they use ``fallback``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from typing import Any

import torch
import torch.library

from ...drivers.traits import Trait
from ..core.callers import site
from ..core.context import Context
from ..core.registry import patch
from ..core.retry import rescued
from ..core.wrapping import Function, copy_metadata, install
from .other_libraries import BITSANDBYTES

_LOADER = "importlib.machinery.ExtensionFileLoader"


@patch(
    "torch.ops.aten[<key>]",
    "torch.ops.quantized[<key>]",
    "torch.ops.<library>[<key>]",
    "torch._ops._Ops.load_library",
    f"{_LOADER}.exec_module",
    *(
        f"{owner}.<function>"
        for owner in ("torch", "torch.Tensor", "torch.linalg", "torch.nn.functional", "torch._C._nn")
    ),
    traits=Trait.PARTIAL,
)
def kernels(context: Context) -> None:
    """Every operator without a kernel on the GPU gets one that computes elsewhere and moves the result back."""
    # Imported here, because other drivers do not need the tables.
    from ...cuda_cpp.leaving import leaving
    from ...fallback.capabilities import keys, refusals
    from ...fallback.cpu import homes_of_doubles, homes_of_quantized
    from ...fallback.guards import Guard, functions
    from ...fallback.kernels import Chain, OfLibraries, register
    from ...wrapper_tensors import compressed, doubles, nested, quantized

    settings, editor, precision = context.settings, context.editor, context.precision
    kind = context.driver.device_type
    device = torch.device(kind, 0)
    translated = context.errors.translated
    believed_cpu = (
        context.translator.apparent_devices.is_cpu
        if context.translator.tracks_apparent_devices
        else lambda tensor: False
    )
    chain = Chain(
        settings.fallback,
        device,
        context.driver.memory.observe,
        settings.mlx,
        site=site,
        translated=translated,
        believed_cpu=believed_cpu,
    )
    with_doubles = precision.choice != "raise"
    guard = Guard(device, chain.left, precision.admit if with_doubles else None, translated)
    homes_of_quantized[kind] = quantized.QuantizedHome(device, chain.left, translated, believed_cpu)
    if precision.choice == "cpu":
        homes_of_doubles[kind] = doubles.DoubleHome(device, chain.left, translated)
    for homes in (homes_of_quantized, homes_of_doubles, nested.homes):
        editor.on_undo(homes.clear)
    editor.on_undo(chain.routes.close)
    libraries = register(chain, guard, nested.MAKING)
    libraries.append(torch.library.Library("aten", "IMPL"))
    if "SparseCsrMPS" in keys():
        compressed.register(libraries[-1], chain.kernel)
    nested.register(libraries[-1], nested.NestedHome(device, chain.left, translated, believed_cpu))
    for library in libraries:
        editor.undone(f"torch.ops.{library.ns}[{kind.upper()}]", library._destroy)
    context.left = chain.left
    others = OfLibraries(chain)

    @editor.later
    def register_others() -> None:
        for library in others.register():
            editor.undone(f"torch.ops.{library.ns}[{kind.upper()}]", library._destroy)

    register_others()
    _after_loading(context, register_others)
    # It registers its kernels from Python.
    editor.on_undo(context.when_imported(BITSANDBYTES, lambda _: register_others()))
    editor.on_undo(functools.partial(setattr, leaving, "told", leaving.told))
    leaving.told = chain.left
    if settings.refusal_cache == "disk":
        # The emulated device is no Mac, whatever machine it runs on.
        refusals.keep("emulated" if Trait.NATIVE in context.traits else kind)
    editor.on_undo(refusals.clear)
    for owner, name, original in functions(with_doubles):
        if not rescued(context, owner, name, original, functools.partial(guard.handler, name)):
            install(context, owner, name, guard.function(name, original), original)


@patch("torch._ops._Ops.load_library", f"{_LOADER}.exec_module", traits=Trait.NATIVE | Trait.HOST_MEMORY)
def foreign(context: Context) -> None:
    """Libraries compiled for CUDA register kernels of their operators, which would launch on host memory.

    The dispatcher uses the kernel registered last, so replacements are registered after each load, which costs about 30
    us more.
    """
    native = context.driver.native
    if native is None:
        return
    take_over, written = native.take_over, torch.library._impls
    native.know_written(written)
    take_over(written)
    _after_loading(context, functools.partial(take_over, written))


def _after_loading(context: Context, action: Callable[[], object]) -> None:
    """Call a function after each load of a compiled library, which may have registered operators."""
    load: Function = torch._ops._Ops.load_library
    execute: Function = ExtensionFileLoader.exec_module

    def load_library(self: Any, path: Any) -> None:
        load(self, path)
        action()

    def exec_module(self: Any, module: Any) -> None:
        execute(self, module)
        action()

    context.editor.set(torch._ops._Ops, "load_library", copy_metadata(load_library, load))
    context.editor.set(
        ExtensionFileLoader, "exec_module", copy_metadata(exec_module, execute), f"{_LOADER}.exec_module"
    )
