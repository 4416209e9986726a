"""The verdict of a report: whether the program ran on the GPU, in a headline, a sentence or two, and figures."""

from __future__ import annotations

import dataclasses

from .advice import REPEATED
from .document import WAIT, Document
from .tables import computed, duration, is_host_copy, share, shown, size


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of the verdict, with its label and an explanation."""

    label: str
    value: str
    note: str


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer to: did it run on the GPU? ``tone``: good, warn or bad."""

    tone: str
    headline: str
    text: str
    figures: tuple[Figure, ...]


def verdict(document: Document) -> Verdict:
    """Summarize a report in a headline, a sentence or two, and figures."""
    tone, headline, text = _seen(document) if document.sees_device else _unseen(document)
    if document.shortages:
        first = document.shortages[0]
        times = f", {len(document.shortages)} times" if len(document.shortages) > 1 else ""
        tone, headline = "bad", f"It ran out of GPU memory{times}"
        text = (
            f"cuda:{first.device} could not give {size(first.requested)} at {shown(first.site)}: "
            f"{size(first.allocated)} of {size(first.allowed)} were allocated. {text}"
        )
    if document.unsupported:
        count = sum(row.count for row in document.unsupported)
        tone = "bad" if tone == "bad" else "warn"
        text += f" {count:,} {_plural(count, 'call is', 'calls are')} not supported."
    if document.findings:
        tone, count = "bad", len(document.findings)
        text += (
            f" {count:,} {_plural(count, 'race or error in a kernel was', 'races and errors in kernels were')} found."
        )
    return Verdict(tone, headline, text, _figures(document))


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def _seen(document: Document) -> tuple[str, str, str]:
    rows = computed(document)
    calls, seconds = sum(row.calls for row in rows), sum(row.seconds for row in rows)
    if not calls:
        return "warn", "It did not use the GPU", _not_asked(document)
    whole = sum(process.seconds for process in document.processes) or document.seconds
    gpus = sorted({(one.process, one.device) for one in document.memory})
    where = f"{len(gpus)} GPUs did" if len(gpus) > 1 else "The GPU did"
    text = f"{where} {calls:,} {_plural(calls, 'call', 'calls')} in "
    if document.predicted:
        text += f"a predicted {duration(seconds)}; the program took {duration(whole)} here"
    else:
        text += f"{duration(seconds)} of the program's {duration(whole)}"
    waits = sum(row.calls for row in document.work if row.kind == WAIT)
    copies = sum(row.calls for row in document.work if is_host_copy(row))
    repeated = sum(row.calls for row in document.work if row.kind == WAIT and row.calls >= REPEATED)
    if not repeated:
        return "good", "It ran on the GPU", f"{text}. Nothing holds it up repeatedly."
    text += f". On a real GPU, {waits:,} waits and {copies:,} copies would hold it up"
    worst = max((row for row in document.work if row.kind == WAIT), key=lambda row: row.calls)
    return "warn", "It ran on the GPU, with interruptions", f"{text}, most often at {shown(worst.site)}."


def _not_asked(document: Document) -> str:
    to_gpu = sum(row.count for row in document.requests if row.given.startswith("cuda"))
    if to_gpu:
        return f"{to_gpu:,} requests for it were made, but no operator ran there."
    count = sum(row.count for row in document.requests)
    return f"None of its {count:,} requests for a device named CUDA: add .cuda() or .to('cuda') to model and data."


def _unseen(document: Document) -> tuple[str, str, str]:
    given = sum(row.count for row in document.requests if row.given.startswith("cuda"))
    if document.driver == "cpu":
        asked = sum(row.count for row in document.requests if row.asked.startswith("cuda"))
        text = f"The cpu driver computes on the CPU; {asked:,} requests for CUDA were answered."
        return "warn", "It ran on the CPU", f"{text} --driver virtual counts work, copies and memory."
    name = "Apple GPU" if document.driver == "mps" else "GPU"
    if not given:
        return "warn", f"It did not use the {name}", _not_asked(document)
    left = [row for row in document.departures if row.count]
    if not left:
        return "good", f"It ran on the {name}", f"No operator left it; {given:,} requests went there."
    calls, seconds = sum(row.count for row in left), sum(row.seconds for row in left)
    part = f", {seconds / document.seconds:.0%} of the program's {duration(document.seconds)}" if seconds else ""
    text = f"{calls:,} calls of {len({row.what for row in left})} kinds left it and took {duration(seconds)}{part}."
    return "warn", f"It ran on the {name}, but not all of it", text


def _figures(document: Document) -> tuple[Figure, ...]:
    found = [Figure("took", duration(document.seconds), "wall time of the program")]
    if document.sees_device:
        rows, clock = computed(document), "predicted" if document.predicted else "CPU"
        copies = [row for row in rows if is_host_copy(row)]
        found += [
            Figure("on the GPU", duration(sum(row.seconds for row in rows)), f"{clock} time of kernels and copies"),
            Figure("calls", f"{sum(row.calls for row in rows):,}", "kernels and copies"),
            Figure(
                "copies", f"{sum(row.calls for row in copies):,}", f"{size(sum(row.bytes for row in copies))} moved"
            ),
            Figure(
                "waits", f"{sum(row.calls for row in document.work if row.kind == WAIT):,}", "of the host for the GPU"
            ),
        ]
    if document.memory:
        most = max(document.memory, key=lambda one: one.peak)
        part = f"{share(most.peak, most.total)} of {size(most.total)}" if most.total else f"cuda:{most.device}"
        found.append(Figure("peak memory", size(most.peak), part))
    if document.departures:
        found.append(
            Figure("left the GPU", f"{sum(row.count for row in document.departures):,}", "calls on MLX or the CPU")
        )
    return tuple(found)
