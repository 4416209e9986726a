"""The table of a plan, as text and as a page of HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .accuracy import NOTE
from .plan import Row
from .steps import Recorder

_HEAD = ("GPU", "memory", "needed", "headroom", "fits", "predicted step", "bound by", "1000 steps", "what would help")
_NOTES = (
    "All figures are predictions. Memory includes 0.5 GiB for CUDA's context, an estimate, the workspaces of cuBLAS "
    "and an estimate of those of recurrent networks, not cuDNN's for convolutions (an H200: 0 to 14 MB). The peaks of "
    "40 training steps were within 2% of an H200's.",
    f"{NOTE} The host's time is this machine's. Only one GPU is used, and streams do not overlap.",
)


def _describe(row: Row) -> tuple[str, ...]:
    step = row.step_ns / 1e6
    cost = "-" if row.cost is None else f"{row.cost:.2f}"
    return (
        row.key,
        f"{row.memory / 1e9:.1f} GB",
        f"{row.needed / 1e9:.1f} GB",
        f"{row.headroom / 1e9:.1f} GB",
        row.verdict,
        f"{step:.0f} ms" if step >= 1000 else f"{step:.4g} ms",
        row.bottleneck,
        cost,
        row.advice,
    )


def _title(recorder: Recorder, has_failed: bool) -> str:
    memory, count = recorder.memory, len(recorder.steps)
    parts = f"parameters {memory.parameters / 1e9:.2f}, gradients {memory.gradients / 1e9:.2f}"
    rest = f"optimizer {memory.state / 1e9:.2f}, activations {memory.activations / 1e9:.2f}"
    until = ", until the program failed" if has_failed else ""
    return f"Plan from {count} rehearsed step{'s' * (count != 1)}{until}; memory in GB: {parts}, {rest}"


def write_text(recorder: Recorder, rows: Sequence[Row], has_failed: bool = False) -> str:
    """Return the table as text."""
    cells = [_HEAD, *(_describe(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n".join([_title(recorder, has_failed), "", *lines, "", *_NOTES])


_STYLE = """body{font:15px system-ui;margin:2em;max-width:75em}table{border-collapse:collapse}
td,th{padding:.3em .8em;text-align:left;border-bottom:1px solid #ccc}
.no{color:#b00020}.tight{color:#a05a00}.yes{color:#006b2d}"""


def write_html(recorder: Recorder, rows: Sequence[Row], has_failed: bool = False) -> str:
    """Return the table as a page without other files."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in _HEAD)
    body = "\n".join(
        f'<tr class="{row.verdict}">' + "".join(f"<td>{html.escape(cell)}</td>" for cell in _describe(row)) + "</tr>"
        for row in rows
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in _NOTES)
    title = html.escape(_title(recorder, has_failed))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Plan</title><style>{_STYLE}</style>\n'
        f"<h1>Plan</h1><p>{title}</p>\n<table><tr>{head}</tr>\n{body}\n</table>\n{notes}</html>\n"
    )
