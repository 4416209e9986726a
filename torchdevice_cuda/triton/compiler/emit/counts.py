"""Arithmetic of a kernel, counted as it runs."""

from __future__ import annotations

from ..ir import Op
from ..writer import Writer

_FLOATS = ("f8", "bf16", "f16", "f32", "f64", "tf32")
#: Operations that take a GPU as long as several sums; others take as long as one.
_SLOW = {"arith.divf": 8, "arith.remf": 8, "math.fma": 2}
_FUNCTION = 16


def _count(op: Op) -> int:
    """Return the operations on floating-point numbers, without those of products of matrices."""
    of = op.operands[0].type if op.operands else None
    if of is None or not of.element.startswith(_FLOATS):
        return 0
    if op.name in ("tt.reduce", "tt.scan"):
        return of.size
    if not op.name.startswith(("arith.", "math.")) or op.name.startswith(("arith.ext", "arith.trunc", "arith.bitcast")):
        return 0
    return of.size * _SLOW.get(op.name, _FUNCTION if op.name.startswith("math.") else 1)


def write_count(writer: Writer, op: Op) -> None:
    """Write what adds an operation to the counts of its program."""
    if op.name.startswith("tt.dot"):
        left, result = op.operands[0].type, op.results[0].type
        is_tf32 = left.element == "f32" and "inputPrecision = tf32" in op.text
        writer.product_type = "tf32" if is_tf32 else left.element
        writer.put(f"program.counts->products += {2 * result.size * left.shape[-1]}.0;")
    elif count := _count(op):
        writer.put(f"program.counts->operations += {count}.0;")
