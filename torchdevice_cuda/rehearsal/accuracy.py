"""The expected error of predictions, which accompanies them everywhere (measured: docs/rehearsal.md)."""

from __future__ import annotations

#: From `python tools/timing errors` and `python tools/timing published`.
KERNELS = "the median error of kernels is 5% on an H200, and 90% are within 23%"
OTHERS = "on six other models, 17 published rates differ by 14% in the median and 30% at most"
NOTE = f"Times of the GPU are predictions, not measurements: {KERNELS}; {OTHERS}."
