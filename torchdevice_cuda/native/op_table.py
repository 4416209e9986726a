"""Read torchgen's ``native_functions.yaml`` and write the rows of ``operators/op_table.h``.

Every torch wheel contains the file, so the rows always match the installed torch. Only a few fields are needed and
PyYAML is not a dependency of torch, so this reads the file line by line.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .toolchain import BuildError

#: The template of the C++ file, in csrc.
TEMPLATE = "core/operators/op_table.cpp.jinja"
#: The flag of op_table.h for a dispatch key of the file.
FLAGS = {
    "MPS": "kMpsKernel",
    "SparseMPS": "kMpsSparseKernel",
    "SparseCsrMPS": "kMpsSparseCsrKernel",
    "NestedTensorMPS": "kMpsNestedKernel",
    "QuantizedCUDA": "kCudaQuantizedKernel",
}
#: The flag for a dispatch key whose CUDA counterpart has no kernel.
ALONE = {"CPU": "kCpuAlone", "SparseCsrCPU": "kSparseCsrCpuAlone"}


class Row(NamedTuple):
    """One row of the table."""

    name: str
    method: str
    flags: tuple[str, ...]


@dataclasses.dataclass
class Operator:
    """The fields of an entry of native_functions.yaml that are used here."""

    name: str
    overload: str
    schema: str
    structured: bool = False
    delegate: str = ""
    iterates: bool = False
    device_check: bool = True
    keys: set[str] = dataclasses.field(default_factory=set)

    @property
    def full_name(self) -> str:
        """Return name and overload."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def is_out(self) -> bool:
        """Return whether it writes to a keyword-only output."""
        arguments = self.schema[self.schema.index("(") + 1 : self.schema.rindex(") ->")]
        _, _, keyword_only = arguments.partition("*, ")
        return bool(re.search(r"\(\w+!\)", keyword_only))


def yaml_path() -> Path:
    """Return the path of torchgen's file; torchgen is installed with torch."""
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(
            "this torch was installed without torchgen, which the build reads the operator list from: "
            "pip install --force-reinstall --no-deps torch"
        )
    return Path(spec.submodule_search_locations[0]) / "packaged" / "ATen" / "native" / "native_functions.yaml"


def read(path: Path) -> Iterator[Operator]:
    """Yield the operators of a native_functions.yaml."""
    current: Operator | None = None
    in_dispatch = False
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split(" #", 1)[0].rstrip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("- func:"):
            if current is not None:
                yield current
            schema = line[len("- func:") :].strip()
            name, _, overload = schema[: schema.index("(")].partition(".")
            current, in_dispatch = Operator(name, overload, schema), False
        elif current is not None and line.startswith("    ") and in_dispatch:
            keys, _, _ = line.strip().partition(":")
            current.keys.update(k.strip() for k in keys.split(","))
        elif current is not None and line.startswith("  "):
            field, _, value = line.strip().partition(":")
            value = value.strip()
            in_dispatch = field == "dispatch"
            if field == "structured":
                current.structured = value == "True"
            elif field == "structured_delegate":
                current.delegate = value
            elif field == "structured_inherits":
                current.iterates = value == "TensorIteratorBase"
            elif field == "device_check":
                current.device_check = value != "NoCheck"
    if current is not None:
        yield current


def rows(path: Path) -> list[Row]:
    """Return the table: every operator, its CUDA wrapper and its flags; sorted by operator."""
    operators = list(read(path))
    by_name = {o.full_name: o for o in operators}
    out = []
    for o in operators:
        # A structured operator's functional and in-place forms use the kernels of its out= form, but only the dense
        # ones.
        kernels = by_name.get(o.delegate, o)
        keys = o.keys | (kernels.keys & {"MPS"})
        structured = o.structured or bool(o.delegate)
        base = o.name + ("_out" if o.is_out else "")
        if structured:
            method = f"wrapper_CUDA_{base}" + (f"_{o.overload}" if o.overload else "")
        else:
            method = f"wrapper_CUDA_{o.overload}_{base}"
        flags = ["kDeviceCheck"] if o.device_check else []
        flags += ["kIterates"] if kernels.iterates else []
        flags += [flag for key, flag in FLAGS.items() if key in keys]
        served = o.keys | kernels.keys
        if not any(key.startswith("Composite") for key in served):
            flags += [flag for key, flag in ALONE.items() if key in served and key.replace("CPU", "CUDA") not in served]
        out.append(Row(o.full_name, method, tuple(flags)))
    return sorted(out)


def cpp(path: Path, template: Path) -> str:
    """Return the C++ file with the table."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    return environment.from_string(template.read_text(encoding="utf-8")).render(rows=rows(path))
