"""Facts about MPS in a torch wheel for macOS, as far as our code depends on them."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Collection
from pathlib import Path

from wheels import Wheel

from torchdevice_cuda.native import op_table

_LIBRARIES = ("libtorch_python", "libc10")
YAML = "torchgen/packaged/ATen/native/native_functions.yaml"
#: Functions of the backend: their names, or those of the types that they take, say so.
_OF_MPS = r"mps|MPS"
#: Where the kernels of a dispatch key are registered, which names them.
_REGISTERS = re.compile(r"TORCH_LIBRARY_IMPL_init_aten_(\w*MPS)_\d+")

#: What the backend says on an older macOS.
_SUPPORTED = re.compile(r"The MPS backend is supported on [Mm]acOS (\d+)\.(\d+)\+")


@dataclasses.dataclass
class TorchFacts:
    """Facts about one release of torch."""

    name: str
    release: tuple[int, ...]
    #: Every text of its libraries.
    texts: frozenset[str]
    #: The texts that functions of the backend refer to, and which do.
    of_mps: dict[str, list[str]]
    #: By dispatch key, the operators that have a kernel.
    registered: dict[str, set[str]]
    #: The same as our table has it.
    in_our_table: dict[str, set[str]]
    #: Names of the backend's functions.
    symbols: frozenset[str]
    #: How many arguments functions of ``torch._C`` take, where their table says so.
    arguments: dict[str, int | None]
    #: What the stub file says that ``torch._C`` has, and torch.mps's own Python.
    python: dict[str, str]
    #: The oldest macOS on which the backend works: that of the load commands, or of the backend's own message.
    macos: tuple[int, ...]


def read(wheel: Wheel, torch_c: Collection[str]) -> TorchFacts:
    """Return the facts of a wheel; of ``torch._C`` those names."""
    cpu = wheel.library("torch/lib/libtorch_cpu.dylib")
    of_mps, texts = cpu.texts_of(_OF_MPS), cpu.texts
    macos = max(
        [cpu.least_macos, *(tuple(map(int, found.groups())) for text in texts if (found := _SUPPORTED.match(text)))]
    )
    symbols = frozenset(name for name in cpu.addresses if re.search(_OF_MPS, name))
    del cpu  # a gigabyte, and the next follows
    arguments: dict[str, int | None] = {}
    for name in _LIBRARIES:
        library = wheel.library(f"torch/lib/{name}.dylib")
        texts |= library.texts
        macos = max(macos, library.least_macos)
        arguments |= library.arguments_of(torch_c)
    named, table = _table(wheel)
    registered: dict[str, set[str]] = {key: set() for key in table}
    for text, functions in of_mps.items():
        for key in {found[1] for function in functions if (found := _REGISTERS.search(function))}:
            if text in named:
                registered.setdefault(key, set()).add(text)
    python = {name: wheel.text(name) for name in [*wheel.matching("torch/mps/", ".py"), "torch/_C/__init__.pyi"]}
    return TorchFacts(str(wheel), wheel.release, texts, of_mps, registered, table, symbols, arguments, python, macos)


def _table(wheel: Wheel) -> tuple[set[str], dict[str, set[str]]]:
    """Every operator, and those with a kernel of MPS as our table has them."""
    with tempfile.TemporaryDirectory() as folder:
        wheel.unpack(Path(folder), YAML)
        rows = op_table.rows(Path(folder, YAML))
    # A macOS wheel has no kernels of CUDA's to compare with.
    flags = {key: flag for key, flag in op_table.FLAGS.items() if key.endswith("MPS")}
    by_key = {key: {row.name for row in rows if flag in row.flags} for key, flag in flags.items()}
    return {row.name for row in rows}, by_key
