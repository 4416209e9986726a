"""The compiler of Metal's shaders, which only a Mac has, played by the C++ compiler of this machine.

It is as strict as Metal about what a kernel is called with, and what comes out computes: inductor's code for an Apple
GPU then runs on the emulated one.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
_KERNEL = re.compile(
    r"^\s*(?:\[\[max_total_threads_per_threadgroup\((\d+)\)\]\]\s*)?kernel void (\w+)\((.*?)\) \{", re.M | re.S
)
_PARAMETER = re.compile(r"(?:(device|constant) )?([\w:]+)([*&]?) (\w+)(?: \[\[(\w+)\]\])?$")
_DTYPES = {
    "float": torch.float32,
    "half": torch.float16,
    "long": torch.int64,
    "int": torch.int32,
    "short": torch.int16,
    "char": torch.int8,
    "uchar": torch.uint8,
    "bool": torch.bool,
}
_ERRORS = "c10::metal::ErrorMessages"
#: What a thread is told of itself, as the grid knows it.
_POSITIONS = {"thread_position_in_grid": "position", "thread_position_in_threadgroup": "at"}
_FIELDS = {"uint": "{0}.x", "uint2": "uint2{{{0}.x, {0}.y}}", "uint3": "{0}"}


@dataclass
class Parameter:
    """A parameter of a kernel."""

    space: str | None
    type: str
    reference: str  # "*", "&" or nothing
    name: str
    position: str | None

    @property
    def given(self) -> bool:
        """Return whether the caller passes it; the GPU passes positions, and the runtime a buffer for errors."""
        return self.position is None and self.type != _ERRORS


class Kernel:
    """A kernel that can be called with tensors of the GPU."""

    def __init__(self, name: str, parameters: list[Parameter], most: int, run: Any) -> None:
        self.name, self._most, self._run = name, most, run
        self._parameters = [parameter for parameter in parameters if parameter.given]

    def __call__(self, *args: Any, threads: list[int], group_size: list[int] | None = None, **more: int) -> None:
        assert set(more) <= {"error_buf_idx"}, more
        assert len(args) == len(self._parameters), (
            f"{self.name} takes {len(self._parameters)} arguments, not {len(args)}"
        )
        held = [_argument(parameter, value) for parameter, value in zip(self._parameters, args, strict=True)]
        group = _dimensions(group_size or [1])
        assert group[0] * group[1] * group[2] <= self._most, f"{group_size} threads in a group, {self._most} allowed"
        pointers = (ctypes.c_void_p * len(held))(*(value for value, _ in held))
        self._run(pointers, _dimensions(threads), group)


def _dimensions(sizes: list[int]) -> Any:
    assert all(isinstance(size, int) and size > 0 for size in sizes), sizes
    return (ctypes.c_uint * 3)(*sizes, *[1] * (3 - len(sizes)))


def _argument(parameter: Parameter, value: Any) -> tuple[int, Any]:
    """Return the address of what is passed, and what has to live as long."""
    if parameter.reference == "&":
        assert isinstance(value, int), f"{parameter.name}: {value!r}"
        number = ctypes.c_long(value)
        return ctypes.addressof(number), number
    assert isinstance(value, torch.Tensor), f"{parameter.name}: {value!r}"
    real = torch._C.TensorBase.device.__get__(value)  # type: ignore[attr-defined]
    assert real.type == "mps", f"{parameter.name} is on {real}"
    assert value.dtype is _DTYPES[parameter.type], f"{parameter.name} is {value.dtype}, not {parameter.type}"
    return value.data_ptr(), value


def _runner(name: str, parameters: list[Parameter]) -> str:
    """C++ that starts a kernel's grid."""
    passed, count = [], 0
    for parameter in parameters:
        if parameter.position is not None:
            passed.append(_FIELDS[parameter.type].format(_POSITIONS[parameter.position]))
        elif parameter.type == _ERRORS:
            passed.append("&errors")
        else:
            star = "*" if parameter.reference == "&" else ""
            passed.append(f"{star}({parameter.type}*)given[{count}]")
            count += 1
    return (
        f'extern "C" void run_{name}(void** given, const uint* grid, const uint* group) {{\n'
        f"  static {_ERRORS} errors;\n"
        f"  for_grid(grid, group, [=](uint3 position, uint3 at) {{ {name}({', '.join(passed)}); }});\n}}\n"
    )


class Library:
    """The kernels of a source, by name."""

    def __init__(self, source: str) -> None:
        found = list(_KERNEL.finditer(source))
        assert found, f"no kernel in {source}"
        runners = []
        for kernel in found:
            words = [" ".join(word.split()) for word in kernel[3].split(",")]
            parsed = [_PARAMETER.match(word) for word in words]
            assert all(parsed), words
            parameters = [Parameter(*match.groups()) for match in parsed if match is not None]
            runners.append((kernel[2], parameters, int(kernel[1] or 1024)))
        # torch's own headers come first, and are Metal's alone.
        code = source[found[0].start() :].replace("[[max_total", "// [[max_total")
        path = Path(tempfile.mkdtemp()) / "kernels.cpp"
        path.write_text('#include "metal.h"\n' + code + "".join(_runner(name, given) for name, given, _ in runners))
        library = path.with_suffix(".so")
        command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", f"-I{HERE}", "-o", library, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SyntaxError(done.stderr)  # as torch.mps.compile_shader does
        loaded = ctypes.CDLL(str(library))
        for name, given, most in runners:
            setattr(self, name, Kernel(name, given, most, loaded[f"run_{name}"]))


@contextmanager
def metal() -> Iterator[list[str]]:
    """Have inductor write its code for Metal, as on a Mac, and give the sources as they are compiled."""
    sources: list[str] = []

    def compile_shader(source: str) -> Library:
        sources.append(source)
        return Library(source)

    changed = {"_mps_compileShader": compile_shader, "_mps_get_core_count": lambda: 10}
    for name, value in changed.items():
        setattr(torch._C, name, value)
    # The emulated GPU has its graphs compiled for the CPU, from the first compilation on.
    torch.compile(torch.neg)(torch.ones(1))
    import torch._inductor.compile_fx as compiling

    emulated = compiling.compile_fx
    compiling.compile_fx = getattr(emulated, "__wrapped__", emulated)
    try:
        yield sources
    finally:
        compiling.compile_fx = emulated
        for name in changed:
            delattr(torch._C, name)
