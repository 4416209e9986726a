"""Operators that MLX can compute: for each its function, with the operator's own arguments, and its dtypes.

Every entry is verified against the CPU with torch's own samples; the entry's limits exclude cases in which MLX differs
from torch (other promotion rules, other treatment of NaN, fewer dtypes). Limits that depend on values are checked by
the functions, which raise :class:`UnfitError`.
"""

from . import algebra, elementwise, indexing, reductions
from .entries import TABLE, Entry, UnfitError, fits, run, tensors

__all__ = [
    "TABLE",
    "Entry",
    "UnfitError",
    "algebra",
    "elementwise",
    "fits",
    "indexing",
    "reductions",
    "run",
    "tensors",
]
