"""PyTorch's public callables, each called on stock torch and then, with the same arguments, on the GPU.

A callable is called on stock torch first, on the CPU, with PyTorch's own samples where there are some and arguments
made from the types and names of its parameters otherwise; then the same call is made with everything on the GPU, and
compared: with what a real GPU came to where it is in the record, else with stock. ``tools/catalog`` does that. What
comes of a comparison is the catalog (``tests/data/catalog.json.xz``) and its page, docs/coverage.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recorded import store

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "catalog"))

RECORD = "catalog-cuda-2.11.json.xz"
CATALOG = store.DATA / "catalog.json.xz"
#: Where runs are kept, so that one that was interrupted goes on.
WORK = Path("build/catalog")


def record_set(options: argparse.Namespace) -> int:
    """Call everything on a real GPU: what the record has as it was called then, the rest as it can be."""
    import recording

    known = recording.calls_of(store.read_file(store.DATA / RECORD))
    recording.runs(["cuda"], WORK / "cuda", options.jobs, options.seconds, options.every, known)
    about = store.make_header("python tools/record record catalog")
    store.write_file(options.to or store.DATA / RECORD, about, recording.recorded(WORK / "cuda"))
    return 0


def compare_set(options: argparse.Namespace) -> int:
    """Call everything on drivers; fail where something worked in the catalog, and does not now."""
    import measuring
    import writing

    before = CATALOG
    if options.answers:
        new, before = store.read_file(options.answers), options.golden or CATALOG
    else:
        gpu = store.read_file(options.golden or store.DATA / RECORD)
        try:
            new = writing.measured(options.driver, WORK, gpu, options.jobs, options.every)
        except measuring.Silent as error:
            sys.exit(str(error))
        print(writing.totals(new))
    if options.to:
        store.write_file(options.to, new["about"], new["answers"])
    lost = writing.regressions(store.read_file(before), new)
    print("\n".join(lost) or "nothing that worked has stopped working")
    return int(bool(lost))


def write_page(page: Path) -> None:
    """Write docs/coverage.md from the catalog."""
    import writing

    page.write_text(writing.page(store.read_file(CATALOG)))
