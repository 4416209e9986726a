"""Operators that MLX can compute: for each its function, with the operator's own arguments, and the dtypes it takes.

Every entry is verified against the CPU over torch's own samples; what MLX does otherwise than torch (other promotion
rules, other treatment of NaN, fewer dtypes) is left out by the entry's limits. Limits that take a look at the values
are checked by the functions, which raise :class:`UnfitError`.
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
