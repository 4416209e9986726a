"""Advice on a report: which lines cost time on a GPU, why, and what to write instead."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

from . import source
from .document import COPY, KERNEL, WAIT, Document, Site, Work
from .tables import Table, duration, shown, size

#: A line with fewer calls is not repeated: its cost is that of a start.
REPEATED = 5
#: Pieces of advice that are shown.
MOST = 12

# Assumed costs of a call on a GPU in seconds. They only order pieces of advice and are not shown.
_WAIT = 10e-6
_PAGEABLE = 1 / 12e9
_CAST = 5e-6


@dataclasses.dataclass(frozen=True)
class Advice:
    """One thing to change, at a line; ``weight`` orders pieces of advice."""

    title: str
    site: Site
    reason: str
    cost: str
    change: str
    weight: float

    @property
    def text(self) -> str:
        """Return the line's source."""
        return source.text_of(self.site)


def advice(document: Document) -> list[Advice]:
    """List what to change, what costs most first."""
    found = [each for rule in _RULES for each in rule(document)]
    return sorted(found, key=lambda each: -each.weight)[:MOST]


def table(pieces: list[Advice]) -> Table:
    """Return pieces of advice as a table."""
    rows = [(each.title, each.cost, shown(each.site), each.change) for each in pieces]
    return Table("advice", "What to change", ("advice", "cost", "line", "do this"), rows, frozenset())


@dataclasses.dataclass(frozen=True)
class _Wait:
    title: str
    reason: str
    change: str


_READS_SIZE = _Wait(
    "Avoid results whose size depends on values",
    "The size of the result is read back from the GPU, so the host waits for all work before it.",
    "Keep the size fixed: torch.where(mask, x, 0) or x * mask in place of x[mask]; or do it once per epoch.",
)
#: By the name of a wait; others are not advised against.
_WAITS = {
    "aten::_local_scalar_dense": _Wait(
        "Read values from the GPU less often",
        "Each .item(), float(tensor), print(tensor) and each if on a tensor waits for the GPU, which then idles "
        "until the host launches more work.",
        "Add results up on the GPU (total += loss.detach()) and read the sum every 100 steps, or after the loop.",
    ),
    "aten::nonzero": _READS_SIZE,
    "aten::index": _READS_SIZE,
    "aten::masked_select": _READS_SIZE,
    "aten::_unique2": _READS_SIZE,
    "aten::repeat_interleave": _READS_SIZE,
    "cudaDeviceSynchronize": _Wait(
        "Synchronize only to measure",
        "torch.cuda.synchronize() stops the host until all streams are idle; PyTorch orders work without it.",
        "Remove it, or use torch.cuda.Event(enable_timing=True) to measure, and synchronize once at the end.",
    ),
    "cudaStreamSynchronize": _Wait(
        "Let streams wait for each other, not the host",
        "Stream.synchronize() stops the host until the stream is idle.",
        "torch.cuda.current_stream().wait_stream(stream) orders the work on the GPU; the host goes on.",
    ),
    "cudaEventSynchronize": _Wait(
        "Let streams wait for events, not the host",
        "Event.synchronize() stops the host until the event has completed.",
        "event.wait() orders the work on the GPU; the host goes on.",
    ),
}

_CREATED = re.compile(r"torch\.(zeros|ones|empty|full|rand|randn|randint|arange|linspace|eye|tensor)\(.*\.(cuda|to)\(")
_CAST_TEXT = re.compile(r"\.(half|float|double|bfloat16|type|to)\(")


def _repeated(document: Document, kind: str) -> Iterator[Work]:
    return (row for row in document.work if row.kind == kind and row.calls >= REPEATED and row.site.file)


def _waits(document: Document) -> Iterator[Advice]:
    for row in _repeated(document, WAIT):
        known = _WAITS.get(row.name)
        if known is not None:
            cost = f"the host waits {row.calls:,} times"
            yield Advice(known.title, row.site, known.reason, cost, known.change, row.calls * _WAIT)


def _copies(document: Document) -> Iterator[Advice]:
    for row in _repeated(document, COPY):
        cost = f"{row.calls:,} copies, {size(row.bytes)}"
        weight = row.calls * _WAIT + row.bytes * _PAGEABLE
        if "HtoD (Pageable" in row.name:
            created = _CREATED.search(source.text_of(row.site))
            if created:
                yield Advice(
                    "Create tensors on the GPU",
                    row.site,
                    "The tensor is created on the CPU and copied, which also stops the host.",
                    cost,
                    f'torch.{created[1]}(..., device="cuda")',
                    weight,
                )
            else:
                yield Advice(
                    "Copy from pinned memory, without waiting",
                    row.site,
                    "A copy from pageable memory stops the host and reaches a quarter of the speed.",
                    cost,
                    'DataLoader(..., pin_memory=True), or x.pin_memory(); then x.to("cuda", non_blocking=True)',
                    weight,
                )
        elif "DtoH (Device -> Pageable" in row.name:
            yield Advice(
                "Bring results back less often",
                row.site,
                "Each .cpu(), .tolist() or .numpy() waits until the GPU has finished.",
                cost,
                "Collect results on the GPU and copy them once: torch.stack(results).cpu()",
                weight,
            )


def _casts(document: Document) -> Iterator[Advice]:
    for row in _repeated(document, KERNEL):
        if row.name in ("aten::copy_", "aten::_to_copy") and _CAST_TEXT.search(source.text_of(row.site)):
            yield Advice(
                "Convert once, not at every step",
                row.site,
                "The line converts a tensor to another type each time it runs.",
                f"{row.calls:,} conversions, {duration(row.seconds)}",
                "Convert before the loop (model.half(), data of the right dtype), or use torch.autocast, "
                "which keeps the converted weights.",
                row.calls * _CAST,
            )


def _fallbacks(document: Document) -> Iterator[Advice]:
    for row in document.departures:
        if row.count < REPEATED and row.seconds < 0.01:
            continue
        if row.what in ("float64", "complex128"):
            change = "Use float32: .float(), dtype=torch.float32; NumPy's arrays are float64 unless you convert them."
            title = f"Avoid {row.what}, which an Apple GPU does not have"
        else:
            change = "Replace it by operators that the Apple GPU has, or move it out of the loop (docs/apple-gpu.md)."
            title = f"{row.what} left the Apple GPU"
        yield Advice(
            title,
            source.parse(row.site),
            f"{row.why}; it goes to: {row.where}",
            f"{row.count:,} calls" + (f", {duration(row.seconds)} with the copies" if row.seconds else ""),
            change,
            max(row.seconds, row.count * _WAIT),
        )


_RULES: tuple[Callable[[Document], Iterator[Advice]], ...] = (_waits, _copies, _casts, _fallbacks)
