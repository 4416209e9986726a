"""The record of calls on a real GPU, with which drivers are compared."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import comparing
import judging
import measuring
from listing import Callable_, listed
from record import store

Row = dict[str, Any]
SAME = judging.SAME
#: A key of a call begins with it that cannot be made again: the tables of arguments have changed since.
THEN = "then "


def of_cuda(namespace: str) -> bool:
    """Return whether a namespace has no meaning without CUDA."""
    return namespace.split(".")[1:2] == ["cuda"]


def chosen(*sources: measuring.Found) -> dict[str, str]:
    """Return the calls to be made again: the first source that has one decides."""
    return {name: row["call"] for source in reversed(sources) for name, row in source.items() if row.get("call")}


def calls_of(gpu: dict[str, Any]) -> dict[str, str]:
    """The calls that were made on a GPU, but for those that the tool had other arguments for then, and crashes."""
    rows = {name: row["cuda"] for name, row in gpu["answers"].items()}
    return {
        name: row["call"] for name, row in rows.items() if not row["call"].startswith(THEN) and not judging.spoilt(row)
    }


def runs(
    drivers: list[str], folder: Path, jobs: int, seconds: float, every: int = 1, known: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run the calls on stock torch on the CPU, then on each driver.

    Runs in the folder are kept; what they did not come to, had no arguments for, or crashed in is tried again.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    entries = listed()[::every]
    listing = folder / "listing.json.xz"
    if not listing.exists():
        rows = {entry.name: dataclasses.asdict(entry) for entry in entries}
        store.write_file(listing, {"torch": str(torch.__version__)}, rows)
    kept_listing = store.read_file(listing)
    found: dict[str, Any] = {**kept_listing["about"], "entries": list(kept_listing["answers"].values())}
    entries = [Callable_(**entry) for entry in found["entries"]]
    for place, driver in enumerate(["stock", *drivers]):
        file = folder / f"{driver.replace(' ', '_')}.json.xz"
        before = store.read_answers(file) if file.exists() else {}
        kept = {name: row for name, row in before.items() if "none" not in row and not judging.spoilt(row)}
        measuring.ENDS[0] = began + seconds * (place + 1) / (len(drivers) + 1)
        asked = [e for e in entries if (driver != "stock" or not of_cuda(e.namespace)) and e.name not in kept]
        # What a GPU was called with comes first: it is what a driver is compared with.
        calls = chosen(*(found[source] for source in ("cuda", "stock") if source in found))
        rows = measuring.rows_for(asked, {**(known or {}), **calls})
        found[driver] = {**kept, **measuring.run(driver, rows, jobs)} if rows else kept
        store.write_file(file, {"torch": found["torch"]}, found[driver])
        print(f"{driver}: {len(found[driver])} in {time.monotonic() - began:.0f} s", flush=True)
    return found


def recorded(folder: Path) -> dict[str, Row]:
    """Return what a GPU did, from the runs in a folder: less the calls that could not be made, and the CPU's results
    where the GPU's are the same."""
    stock, there = (store.read_answers(folder / f"{name}.json.xz") for name in ("stock", "cuda"))
    kept: dict[str, Row] = {}
    for name, row in there.items():
        cpu = stock.get(name)
        if row.get("call") and not (cpu and cpu.get("call") == row["call"]):
            kept[name] = {"cuda": row}
        elif row.get("call"):
            kept[name] = {"cuda": row, "cpu": SAME if comparing.same(cpu, row, **judging.how(name)) else cpu}
    return kept
