"""Operators that the accelerator's backend lacks, or refuses for a dtype: they use ``fallback``."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.library

from ...drivers.traits import Trait
from ..core.callers import site
from ..core.context import Context
from ..core.registry import patch
from ..core.retry import rescued
from ..core.wrapping import Function, copy_metadata, install
from .other_libraries import BITSANDBYTES

if TYPE_CHECKING:
    from ...cuda_cpp.extensions import Extensions

_LOADER = "importlib.machinery.ExtensionFileLoader"


@patch(
    "torch.ops.aten[<key>]",
    "torch.ops.quantized[<key>]",
    "torch.ops.<library>[<key>]",
    "torch._ops._Ops.load_library",
    f"{_LOADER}.create_module",
    f"{_LOADER}.exec_module",
    "<extension>.<function>",
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
    guard = Guard(device, chain.left, precision.admit if with_doubles else None, translated, context.errors.explained)
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

    loading = _Loading(context)

    def loaded(path: str, module: ModuleType | None) -> None:
        loading.loaded(path, module)
        register_others()

    register_others()
    _on_loading(context, loading.opening, loaded)
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


@patch(
    "torch._ops._Ops.load_library",
    f"{_LOADER}.create_module",
    f"{_LOADER}.exec_module",
    traits=Trait.NATIVE | Trait.HOST_MEMORY,
)
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
    _on_loading(context, lambda path: contextlib.nullcontext(), lambda path, module: take_over(written))


def _on_loading(
    context: Context,
    opening: Callable[[str], contextlib.AbstractContextManager[object]],
    loaded: Callable[[str, ModuleType | None], object],
) -> None:
    """Open compiled libraries in a context, made from the path, and call a function after each load.

    A library registers operators when it is opened, which for a module is before its functions exist.
    """
    load: Function = torch._ops._Ops.load_library
    create: Function = ExtensionFileLoader.create_module
    execute: Function = ExtensionFileLoader.exec_module

    def load_library(self: Any, path: Any) -> None:
        with opening(os.fspath(path)):
            load(self, path)
        loaded(os.fspath(path), None)

    def create_module(self: Any, spec: Any) -> Any:
        with opening(self.path):
            return create(self, spec)

    def exec_module(self: Any, module: Any) -> None:
        execute(self, module)
        loaded(self.path, module)

    context.editor.set(torch._ops._Ops, "load_library", copy_metadata(load_library, load))
    for function, original in ((create_module, create), (exec_module, execute)):
        name = original.__name__
        context.editor.set(ExtensionFileLoader, name, copy_metadata(function, original), f"{_LOADER}.{name}")


def _extensions(context: Context) -> Extensions:
    """Return what calls extensions of CUDA C++ with the GPU's tensors."""
    from ...cuda_cpp.extensions import Extensions
    from ...drivers.recording.mode import refuse_unseen

    driver = context.driver

    def run(name: str, function: Callable[[], Any]) -> Any:
        """Run it; what it draws are the numbers of the GPU's seed."""
        refuse_unseen(name)
        native, shown = driver.host_gpu, driver.generators()[0]
        generator, before = native.default_generator(0), driver.generator_state(shown)
        generator.set_state(before)
        result = function()
        native.synchronize(0)  # a kernel's failure is raised here
        after = generator.get_state()
        if not torch.equal(after, before):
            driver.set_generator_state(shown, after)
        return result

    return Extensions(driver.loan, context.on_gpu, context.precision.admit, run)


class _Loading:
    """Extensions of CUDA C++, as they are loaded: their functions and operators take the GPU's tensors."""

    def __init__(self, context: Context) -> None:
        self._context, self._extensions = context, _extensions(context)
        self._kind = context.driver.device_type.upper()
        self._opened: set[str] = set()
        self._register, self._wrap = context.editor.later(self._register_kernels), context.editor.later(self._wrap_all)

    @contextlib.contextmanager
    def opening(self, path: str) -> Iterator[None]:
        """Open a library, which registers its operators."""
        from ...cuda_cpp.extensions import has_kernels

        if not has_kernels(path):
            yield
            return
        _ = self._context.driver.host_gpu  # kernels find it when they are first launched
        before = set(torch._C._dispatch_get_all_op_names())
        yield
        self._opened.add(path)
        self._register(set(torch._C._dispatch_get_all_op_names()) - before)

    def _register_kernels(self, names: set[str]) -> None:
        from ...fallback.operators import overload

        for name in sorted(names):
            namespace, _, plain = name.partition("::")
            if not torch._C._dispatch_has_kernel_for_dispatch_key(name, self._kind):
                library = torch.library.Library(namespace, "IMPL")
                library.impl(plain, self._extensions.wrap(overload(name), name), self._kind)
                self._context.editor.undone(f"torch.ops.{namespace}[{self._kind}]", library._destroy)

    def loaded(self, path: str, module: ModuleType | None) -> None:
        """Wrap the functions of a library that is a module."""
        if path in self._opened and module is not None:
            self._wrap(module)

    def _wrap_all(self, module: ModuleType) -> None:
        from ...cuda_cpp.extensions import find_functions

        for owner, name, function in find_functions(module):
            wrapper = self._extensions.wrap(function, f"{owner.__name__}.{name}")
            self._context.editor.set(owner, name, wrapper, target="<extension>.<function>")
