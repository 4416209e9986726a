"""The text of ``--gpu list``."""

from __future__ import annotations

from collections.abc import Iterable

from .model import Gpu

_HEAD = (
    *("profile", "name", "capability", "multiprocessors", "memory", "bandwidth"),
    *("FP32", "TF32", "FP16", "FP8", "clock"),
)
_UNITS = (
    "FP32: peak TFLOPS without tensor cores; TF32, FP16, FP8: with them, dense, accumulating in FP32; "
    "-: none, or not published"
)


def write(profiles: Iterable[tuple[str, Gpu]]) -> str:
    """Return a table of profiles, ordered by compute capability."""
    rows = [_describe(key, gpu) for key, gpu in sorted(profiles, key=lambda row: (row[1].capability, row[0]))]
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (_HEAD, *rows))
    return "\n".join([*(line.rstrip() for line in lines), "", _UNITS])


def _describe(key: str, gpu: Gpu) -> tuple[str, ...]:
    return (
        key,
        gpu.name,
        ".".join(map(str, gpu.capability)),
        str(gpu.multiprocessors),
        f"{gpu.memory / (1 << 30):.1f} GiB",
        f"{gpu.bandwidth_gb_s:.0f} GB/s",
        *(
            f"{gpu.tflops[kind]:g}" if kind in gpu.tflops else "-"
            for kind in ("fp32", "tensor_tf32", "tensor_fp16", "tensor_fp8")
        ),
        f"{gpu.clock_mhz} MHz",
    )
