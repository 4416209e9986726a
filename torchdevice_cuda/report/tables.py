"""A report as tables: their contents, order and texts. Renderers determine their appearance."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Sequence

from .document import COPY, KERNEL, WAIT, Departure, Document, Memory, Site, Work

#: Dtypes that the GPU lacks: their fallbacks have a separate table.
_DOUBLES = ("float64", "complex128")


def cell(value: object) -> str:
    """Return a value on one line: file names may contain line ends, and bytes that are not text."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape", "backslashreplace").decode()


def duration(seconds: float) -> str:
    """Format seconds for people."""
    for least, factor, unit in ((1.0, 1, "s"), (1e-3, 1e3, "ms")):
        if seconds >= least:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.0f} us" if seconds else "0"


def size(count: int) -> str:
    """Format bytes for people."""
    for least, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} B"


def share(part: int, whole: int) -> str:
    """Format a part of a whole for people."""
    return "under 0.1%" if 0 < part / whole < 0.0005 else f"{part / whole:.1%}"


#: The file that a kernel of Jupyter names for a cell, with the line.
_CELL = re.compile(r"(.*[/\\]ipykernel_\d+[/\\](\d+)\.py)(:\d+)?$")
#: Returns the number of the cell with a file, if it is known. Set by the IPython extension.
number_of_cell: Callable[[str], int | None] | None = None


def short(path: str) -> str:
    """Return a site's file relative to the current folder, if that is shorter."""
    if not os.path.isabs(path):
        return path
    cell_of_notebook = _CELL.search(path)
    if cell_of_notebook:
        number = number_of_cell(cell_of_notebook[1]) if number_of_cell else None
        name = f"In[{number}]" if number is not None else f"cell {cell_of_notebook[2]}"
        return f"{name}{cell_of_notebook[3] or ''}"
    try:
        relative = os.path.relpath(path)
    except OSError:  # the folder no longer exists
        return path
    return relative if len(relative) < len(path) and not relative.startswith("..") else path


def shown(site: Site | str) -> str:
    """Return a site as shown in tables."""
    return short(str(site))


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under a title; ``right`` lists numeric columns. ``none`` is shown if there are no rows."""

    key: str
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[int]
    none: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(tuple(map(cell, row)) for row in self.rows))


@dataclasses.dataclass
class Sum:
    """The sum over lines or operators."""

    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    copies: int = 0
    waits: int = 0
    site: Site | None = None

    def add(self, row: Work) -> None:
        """Add one row; the site is that of the first."""
        self.seconds += row.seconds
        self.bytes += row.bytes
        if row.kind == WAIT:
            self.waits += row.calls
        elif row.kind == COPY:
            self.copies += row.calls
        if row.kind != WAIT:
            self.calls += row.calls
        self.site = self.site or row.site


def sums(rows: Iterable[Work], key: Callable[[Work], object]) -> dict[object, Sum]:
    """Sum up rows by a key, most time first."""
    found: dict[object, Sum] = {}
    for row in rows:
        found.setdefault(key(row), Sum()).add(row)
    return dict(sorted(found.items(), key=lambda item: (-item[1].seconds, -item[1].calls)))


def computed(document: Document) -> list[Work]:
    """List the work on the device: kernels and copies."""
    return [row for row in document.work if row.kind in (KERNEL, COPY)]


def operators(document: Document) -> Table:
    """Sum up the work on the GPU by operator."""
    rows = computed(document)
    total = sum(row.seconds for row in rows)
    calls = sum(row.calls for row in rows)
    return Table(
        "operators",
        f"What ran on the GPU: {calls:,} calls, {duration(total)}",
        ("time", "share", "calls", "operator", "first called at"),
        [
            (
                duration(each.seconds),
                f"{each.seconds / (total or 1):.0%}",
                f"{each.calls:,}",
                str(name),
                shown(each.site or ""),
            )
            for name, each in sums(rows, lambda row: row.name).items()
        ],
        frozenset({0, 1, 2}),
        "nothing" if document.sees_device else "",
    )


def lines(document: Document) -> Table:
    """Sum up the work on the GPU by line of the program."""
    found = sums(document.work, lambda row: row.site)
    return Table(
        "lines",
        "By line of the program",
        ("time", "calls", "copies", "waits", "line", "in"),
        [
            (
                duration(s.seconds),
                f"{s.calls:,}",
                f"{s.copies:,}",
                f"{s.waits:,}",
                shown(site),
                site.function if site.file else "",
            )
            for site, s in found.items()
            if isinstance(site, Site)
        ],
        frozenset({0, 1, 2, 3}),
    )


#: The description of a wait for users, by its cause.
_WAITING = {
    "aten::_local_scalar_dense": ".item(), if tensor, float(tensor)",
    "aten::copy_": "a blocking copy",
    "cudaDeviceSynchronize": "torch.cuda.synchronize()",
    "cudaStreamSynchronize": "Stream.synchronize()",
    "cudaEventSynchronize": "Event.synchronize()",
}


def is_host_copy(row: Work) -> bool:
    """Return whether a row is of copies between host and device."""
    return row.kind == COPY and "DtoD" not in row.name and "PtoP" not in row.name


def costs(document: Document) -> Table:
    """List copies between host and device, and calls that wait for the device: they would slow down a GPU."""
    rows = [row for row in document.work if row.kind == WAIT or is_host_copy(row)]
    copied = sum(row.bytes for row in rows)
    waits, copies = (sum(row.calls for row in rows if row.kind == kind) for kind in (WAIT, COPY))
    return Table(
        "costs",
        f"What would hold up a GPU: {copies:,} copies between host and device, {size(copied)}; {waits:,} waits",
        ("count", "bytes", "what", "line"),
        [
            (
                f"{row.calls:,}",
                size(row.bytes) if row.kind == COPY else "",
                row.name if row.kind == COPY else f"waits: {_WAITING.get(row.name, row.name)}",
                shown(row.site),
            )
            for row in sorted(rows, key=lambda row: (-row.calls, -row.bytes, row.site))
        ],
        frozenset({0, 1}),
        "nothing" if document.sees_device else "",
    )


def requests(document: Document) -> Table:
    """List requests for devices, and the resulting devices."""
    total = sum(row.count for row in document.requests)
    return Table(
        "requests",
        f"Device requests on the {document.driver} driver: {total:,}",
        ("count", "asked", "given", "call site"),
        [
            (f"{row.count:,}", row.asked, row.given, shown(row.site))
            for row in sorted(document.requests, key=lambda r: -r.count)
        ],
        frozenset({0}),
        "none",
    )


def _left(rows: Sequence[Departure], key: str, title: str) -> Table:
    return Table(
        key,
        f"{title}: {sum(row.count for row in rows):,}",
        ("count", "time", "what", "where it went", "why", "first at"),
        [
            (f"{row.count:,}", duration(row.seconds), row.what, row.where, row.why, shown(row.site))
            for row in sorted(rows, key=lambda row: (-row.seconds, -row.count))
        ],
        frozenset({0, 1}),
    )


def memory(document: Document) -> Table:
    """Return the peak of each device of each process, and the lines that held it."""
    several = len({row.process for row in document.memory}) > 1
    rows = []
    for one in document.memory:
        where = f"cuda:{one.device}" + (f" of process {one.process}" if several else "")
        rows += [
            (where, size(one.peak), f"{one.peak_at:.2f} s", size(holder.bytes), shown(holder.site))
            for holder in one.held_at_peak
        ]
    return Table(
        "memory",
        "Memory at its peak: " + (", ".join(_peak(one, several) for one in document.memory) or "nothing was allocated"),
        ("device", "peak", "at", "held", "allocated at"),
        rows,
        frozenset({1, 2, 3}),
    )


def _peak(one: Memory, several: bool) -> str:
    return f"{size(one.peak)} on cuda:{one.device}" + (f" in process {one.process}" if several else "")


def unsupported(document: Document) -> Table:
    """List calls that torchdevice_cuda refused."""
    return Table(
        "unsupported",
        f"Calls that are not supported: {sum(row.count for row in document.unsupported):,}",
        ("count", "what", "why", "call site"),
        [(f"{row.count:,}", row.what, row.why, shown(row.site)) for row in document.unsupported],
        frozenset({0}),
    )


#: The description of a process, by its state.
_STATES = {
    "ended": "",
    "running": "is still running: not in this report",
    "lost": "ended without a word (killed, or os._exit): not in this report",
}


def processes(document: Document) -> Table:
    """List the processes of the report; a table is useful if there were several."""
    return Table(
        "processes",
        f"Processes: {len(document.processes):,}",
        ("process", "rank", "time", "name", "command", ""),
        [
            (
                str(row.pid),
                "" if row.rank is None else str(row.rank),
                duration(row.seconds),
                row.name,
                row.command,
                _STATES.get(row.state, row.state),
            )
            for row in document.processes
        ],
        frozenset({0, 1, 2}),
    )


def all_of(document: Document) -> list[Table]:
    """List every table that is not empty, the most useful first."""
    doubles = [row for row in document.departures if row.what in _DOUBLES]
    others = [row for row in document.departures if row.what not in _DOUBLES]
    found = []
    if document.sees_device:
        found += [operators(document), lines(document), costs(document), memory(document)]
    found.append(requests(document))
    found.append(_left(others, "departures", "What left the GPU"))
    found.append(_left(doubles, "doubles", "float64 that lost precision, or stayed on the CPU"))
    found.append(unsupported(document))
    if len(document.processes) > 1:
        found.append(processes(document))
    return [table for table in found if table.rows or table.none or table.key == "memory"]


def title(document: Document) -> str:
    """Return the command of the first process."""
    return cell(document.processes[0].command if document.processes else "")


def heading(document: Document) -> list[str]:
    """Describe the subject of a report in two lines, followed by its limits."""
    gpu = f", {document.gpu}" if document.gpu else ""
    said = [
        f"torchdevice_cuda: the {document.driver} driver{gpu}, torch {document.torch}",
        f"{title(document)}: {duration(document.seconds)}, begun {document.begun}",
        *document.notes,
    ]
    return list(map(cell, said))
