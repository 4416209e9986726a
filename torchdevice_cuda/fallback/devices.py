"""CPU tensors among GPU tensors: refused as by CUDA, before any computation.

The Apple GPU's backend does not compare devices. Most of its kernels notice a CPU tensor when they pass it to Metal;
some treat its memory as the GPU's, which ends the process. A fallback to the CPU would accept it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ..native.op_table import Row
    from .operators import Operator

#: The attribute as a function: reading a device's type creates a new string each time.
is_cpu: Callable[[torch.Tensor], bool] = vars(torch._C.TensorBase)["is_cpu"].__get__


def is_stranger(value: Any) -> bool:
    """Return whether an argument is, or contains, a CPU tensor that is not a scalar, which may be on any device."""
    if isinstance(value, torch.Tensor):
        return is_cpu(value) and value.dim() > 0
    return isinstance(value, (list, tuple)) and any(map(is_stranger, value))


@functools.cache
def rows() -> dict[str, Row]:
    """Return torch's own table of operators, read at the first refusal."""
    from ..native import op_table

    return {f"aten::{row.name}": row for row in op_table.rows(op_table.yaml_path())}


@functools.cache
def composed_on_cuda() -> frozenset[str]:
    """Return the operators that CUDA computes by calling others, read at the first refusal."""
    from ..native import op_table

    operators = {row.full_name: row for row in op_table.read(op_table.yaml_path())}

    def is_composed(row: op_table.Operator) -> bool:
        keys = row.keys | operators.get(row.delegate, row).keys
        return not keys or any(key.startswith("Composite") for key in keys) and "CUDA" not in keys

    return frozenset(f"aten::{name}" for name, row in operators.items() if is_composed(row))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def compares_itself(op: Operator) -> bool:
    """Return whether CUDA's operator compares devices before it looks for a kernel."""
    row = rows().get(op.name())
    return row is not None and "kIterates" in row.flags and "kDeviceCheck" not in row.flags


def two_devices(one: torch.device, other: torch.device) -> str:
    """Return CUDA's message for arguments on two devices; the GPU is named first."""
    devices = f"{one} and {other}" if other.type == "cpu" else f"{other} and {one}"
    return f"Expected all tensors to be on the same device, but found at least two devices, {devices}!"


def mixed(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError | None:
    """Return CUDA's error for arguments on two devices; ``None`` if CUDA does not compare them."""
    row = rows().get(op.name())
    if row is None or not {"kDeviceCheck", "kIterates"} & set(row.flags):
        return None
    arguments = op._schema.arguments
    given = dict(zip((argument.name for argument in arguments), args, strict=False), **kwargs)
    # CUDA's order: outputs first, then the rest.
    order = sorted(arguments, key=lambda argument: not (argument.kwarg_only and argument.is_out))
    found = [(argument.name, tensor) for argument in order for tensor in _tensors(given.get(argument.name))]
    common = found[0][1].device
    name, other = next(((name, tensor.device) for name, tensor in found if tensor.device != common), ("", common))
    if "kDeviceCheck" not in row.flags:
        return RuntimeError(two_devices(common, other))
    return RuntimeError(
        f"Expected all tensors to be on the same device, but got {name} is on {other}, different from other tensors on "
        f"{common} (when checking argument in method {row.method})"
    )
