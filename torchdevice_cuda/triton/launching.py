"""Launches: what triton calls with a grid and arguments once it has compiled a kernel."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import logging
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import rehearsal
from ..report.departures import departures
from ..settings import sanitizer
from .memory import Memory
from .modes import MODES

if TYPE_CHECKING:
    from ..rehearsal.kernels import Counts
    from .compiler.launch import Compiled
    from .interpreting import Interpreted, Interpreter

_log = logging.getLogger(__name__)
#: CUDA's limits of a grid.
_LIMITS = (2**31 - 1, 65535, 65535)


@dataclasses.dataclass
class Place:
    """Where kernels run: what depends on the driver."""

    #: a launch's memory
    memory: Callable[[], Memory]
    #: whether the GPU reaches a tensor's memory
    reaches: Callable[[Any], bool]
    #: runs a launch on behalf of the device, given its name, its memory and what does it
    run: Callable[[str, Memory, Callable[[], None]], None]
    #: whether kernels are compiled for the host where that is possible
    compiles: bool
    #: the setting ``sanitize``
    sanitize: str = ""


class Launches:
    """Makes the launchers, one for each kernel that was compiled."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @functools.cached_property
    def interpreter(self) -> Interpreter:
        """Triton's interpreter, from the first kernel on that needs it."""
        from .interpreting import Interpreter

        return Interpreter(self.place.sanitize)

    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Wait until no kernel is interpreted: the language is not the compiler's then."""
        if "interpreter" not in vars(self):
            return contextlib.nullcontext()
        return self.interpreter.language.compiling()

    def launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What ``launcher_cls`` is to triton."""
        name = getattr(metadata, "name", "")
        function = getattr(source, "fn", None)
        if function is None or getattr(function, "is_gluon", lambda: False)():
            kind = "an intermediate representation" if function is None else "Gluon"
            raise NotImplementedError(
                f"the Triton kernel {name} is written in {kind}, which takes a real GPU; here @triton.jit functions run"
            )
        return functools.partial(self._launch, _Kernel(self, source, metadata, name))

    def _launch(
        self, kernel: _Kernel, x: Any, y: Any, z: Any, stream: Any, function: Any, packed: Any, about: Any,
        entering: Any, leaving: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        grid = operator.index(x), operator.index(y), operator.index(z)
        for hook in _hooks(entering):
            hook(about)
        memory = self.place.memory()
        values = kernel.list_values(arguments, memory)
        if grid[0] * grid[1] * grid[2] > 0:
            if any(size > limit for size, limit in zip(grid, _LIMITS, strict=True)):
                raise RuntimeError("Triton Error [CUDA]: invalid argument")
            if not MODES.only_tried:
                if rehearsal.is_timed() and not MODES.trusted:
                    memory.counts = kernel.count(grid, values, memory)
                self._compute(kernel.name, memory, kernel.prepare(grid, values, memory))
        for hook in _hooks(leaving):
            hook(about)

    def _compute(self, name: str, memory: Memory, work: Callable[[], None]) -> None:
        with memory:
            if MODES.trusted:
                work()
            else:
                self.place.run(name, memory, work)


def _hooks(hook: Any) -> list[Callable[[Any], None]]:
    """A hook, or a chain of them, which older releases do not have."""
    return [] if hook is None else [hook]


class _Kernel:
    """A kernel that triton has compiled, with what it knows of the arguments."""

    def __init__(self, launches: Launches, source: Any, metadata: Any, name: str) -> None:
        self._launches, self._jitted, self._metadata, self.name = launches, source.fn, metadata, name
        self._names: list[str] = list(source.fn.arg_names)
        self._types = {self._named(key): value for key, value in source.signature.items()}
        constants = getattr(source, "constants", {})
        self._constants = {self._named(key): value for key, value in constants.items() if self._named(key)}
        self._is_tried = False
        self._counts: dict[tuple[Any, ...], Counts | None] = {}
        self._compiled: Compiled | None = None
        #: whether tensor descriptors are the GPU's own, which have tensor maps from capability 9.0
        self._has_maps = bool(getattr(metadata, "tensordesc_meta", None))
        # Read now: Triton's cache may be another, or gone, when the kernel is first launched.
        self._ttir = getattr(source, "ttir", None) or self._read_ttir() if launches.place.compiles else None

    def _named(self, key: Any) -> Any:
        """An argument's name; triton says its name, its position or the path to it, by release."""
        if isinstance(key, tuple):
            key = key[0] if len(key) == 1 else None
        return self._names[key] if isinstance(key, int) else key

    # ------------------------------------------------------------- arguments
    def list_values(self, arguments: tuple[Any, ...], memory: Memory) -> dict[str, Any]:
        """Return the arguments by name, addresses in the place of tensors."""
        given = self._names
        if len(arguments) < len(given):  # releases before 3.3 hand over what was not a constant when it was compiled
            constexprs = {self._names[index] for index in self._jitted.constexprs}
            given = [name for name in self._names if name not in constexprs]
        values = {**self._constants, **dict(zip(given, arguments, strict=True))}
        return {
            name: self._find_addresses(values.get(name), self._types.get(name, "constexpr"), index, memory)
            for index, name in enumerate(self._names)
        }

    def _find_addresses(self, value: Any, kind: Any, index: int, memory: Memory) -> Any:
        if isinstance(kind, tuple):
            parts = [self._find_addresses(part, of, index, memory) for part, of in zip(value, kind, strict=True)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if kind == "constexpr" or value is None:
            return value
        if kind.startswith("tensordesc"):
            base = _Pointer(self._find_address(value.base, index, memory), value.base)
            return dataclasses.replace(value, base=base)
        return self._find_address(value, index, memory) if kind.startswith("*") else value

    def _find_address(self, value: Any, index: int, memory: Memory) -> int:
        if isinstance(value, int):
            return value
        tensor = getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value
        if not hasattr(tensor, "untyped_storage"):
            return int(value.data_ptr())
        if not MODES.trusted and not self._launches.place.reaches(tensor) and tensor.data_ptr():
            raise ValueError(_unreachable(index))
        return memory.address(tensor)

    def _list_variables(self, values: dict[str, Any]) -> list[Any]:
        """Return the arguments that a compiled kernel has, in their order: constants are part of its code."""
        flatten = _flatten_map if self._has_maps else _decompose
        return [one for name in self._variables for one in _flatten(values[name], self._types[name], flatten)]

    @functools.cached_property
    def _variables(self) -> list[str]:
        return [name for name in self._names if name not in self._constants and name in self._types]

    # --------------------------------------------------------------- running
    def prepare(self, grid: tuple[int, int, int], values: dict[str, Any], memory: Memory) -> Callable[[], None]:
        """Return what runs every program of the grid."""
        variables = self._list_variables(values)
        compiled = self._find_compiled(len(variables))
        if compiled is None:
            interpreted = self._interpreted
            converted = {
                name: interpreted.convert(value, self._types.get(name, "constexpr")) for name, value in values.items()
            }
            return lambda: interpreted.compute(grid, converted, memory)
        import torch

        threads = torch.get_num_threads()
        return lambda: compiled.run(grid, variables, memory.ranges(), memory.list_accessible, threads)

    def count(self, grid: tuple[int, int, int], values: dict[str, Any], memory: Memory) -> Counts | None:
        """Return what the launch does, counted in a sample of its programs; ``None`` where that is not possible."""
        if self._counter is None:
            return None
        variables, ranges = self._list_variables(values), memory.ranges()
        addresses = {*memory.pointers}
        key = (grid, *(size for _, size in ranges), *(one for one in variables if one not in addresses))
        if key not in self._counts:
            self._counts[key] = self._counter.count(grid, variables, ranges)
        return self._counts[key]

    @functools.cached_property
    def _counter(self) -> Compiled | None:
        """The kernel, compiled to be counted."""
        from .compiler.ir import Unsupported
        from .compiler.launch import Compiled

        if self._ttir is None:
            return None
        try:
            return Compiled(self._ttir, self.name, contracts=True, is_counted=True)
        except Unsupported as error:
            _log.info("the Triton kernel %s is not counted: %s", self.name, error)
            return None

    def _find_compiled(self, count: int) -> Compiled | None:
        """Return the kernel, compiled for the host at its first launch; ``None`` where that is not possible."""
        if not self._is_tried:
            self._is_tried, self._compiled = True, self._compile(count)
        return self._compiled

    def _compile(self, count: int) -> Compiled | None:
        """Compile the kernel for this number of arguments; if that is not possible, report the reason."""
        if not self._launches.place.compiles:
            return None
        from .compiler.ir import Refused, Unsupported
        from .compiler.launch import Compiled

        try:
            if self._ttir is None:
                raise Unsupported("Triton's cache does not have its TTIR")
            tools = sanitizer.list_tools(self._launches.place.sanitize)
            compiled = Compiled(self._ttir, self.name, bool(getattr(self._metadata, "enable_fp_fusion", True)), tools)
            compiled.check_arguments(count)
        except Refused as error:
            raise NotImplementedError(f"the Triton kernel {self.name} cannot run here: {error}") from None
        except Unsupported as error:
            _log.info("the Triton kernel %s is interpreted: %s", self.name, error)
            departures.counter(f"triton.{self.name}", "Triton's interpreter", f"it cannot be compiled: {error}")()
            return None
        return compiled

    def _read_ttir(self) -> str | None:
        """Return what triton's compiler kept of its way from the source to the GPU's code."""
        from triton.runtime.cache import get_cache_manager

        path = get_cache_manager(self._metadata.hash).get_file(f"{self.name[:150]}.ttir")
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()

    @functools.cached_property
    def _interpreted(self) -> Interpreted:
        try:
            from .interpreting import Interpreted
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise RuntimeError(
                f"the Triton kernel {self.name} needs NumPy here, which Triton's interpreter computes with; "
                "pip install numpy"
            ) from None
        return Interpreted(self._launches.interpreter, self._jitted, self._metadata, self.name)


def _flatten(value: Any, kind: Any, flatten: Callable[[Any], list[Any]]) -> list[Any]:
    """Return an argument's parts; `flatten` returns those of a tensor descriptor."""
    if isinstance(kind, tuple):
        return [one for part, of in zip(value, kind, strict=True) for one in _flatten(part, of, flatten)]
    if isinstance(kind, str) and kind.startswith("tensordesc"):
        return flatten(value)
    return [] if kind == "constexpr" else [value]


def _flatten_map(descriptor: Any) -> list[Any]:
    """Return the parts of a descriptor that is one argument, with its sizes and strides behind it."""
    from .compiler.emit.descriptors import PADS_WITH_NAN, ROUNDS_TO_TF32

    pads, rounds = _read_options(descriptor)
    first, *rest = descriptor.shape
    first += PADS_WITH_NAN * bool(pads) + ROUNDS_TO_TF32 * bool(rounds)
    return [descriptor.base.data_ptr(), first, *rest, *descriptor.strides]


def _decompose(descriptor: Any) -> list[Any]:
    """Return the parts of a descriptor that Triton writes as a pointer: sizes and strides are there twice."""
    sizes = [*descriptor.shape, *descriptor.strides]
    options = [option for option in _read_options(descriptor) if option is not None]
    return [descriptor.base.data_ptr(), *sizes, *options, *sizes]


def _read_options(descriptor: Any) -> tuple[bool | None, bool | None]:
    """Return whether a descriptor pads with NaN and rounds to tf32; releases before have no such options."""
    padding = getattr(descriptor, "padding", None)
    return None if padding is None else padding == "nan", getattr(descriptor, "round_f32_to_tf32", None)


class _Pointer:
    """A tensor's memory as a descriptor holds it."""

    def __init__(self, address: int, tensor: Any) -> None:
        self._address, self.dtype = address, tensor.dtype

    def data_ptr(self) -> int:
        """The address that the kernel uses."""
        return self._address


def _unreachable(index: int) -> str:
    """Triton's words for a pointer to the host's memory: older releases say which argument it is."""
    from triton.backends.nvidia import driver

    with open(inspect.getfile(driver)) as source:
        says_which = "Pointer argument (at %d)" in source.read()
    where = f" (at {index})" if says_which else ""
    return f"Pointer argument{where} cannot be accessed from Triton (cpu tensor?)"
