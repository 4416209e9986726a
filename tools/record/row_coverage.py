"""Which rows of the contract a record has a case for: the operators that the cases call, set by set.

``python tools/record coverage`` runs the sets on the virtual GPU and notes every operator that is called with a CUDA
tensor or device. Operators that others call in C++ are not seen, so a fact may be marked although a GPU has shown it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from record import bits_table, running, store, table
from record.case_sets import load_set
from record.noting import NOTES
from record.places import PLACES, ROOT

CALLED = store.DATA / "called-operators.json"
PAGE = ROOT / "docs" / "operators.md"
_OUTCOMES = ("operators", "oracle", "asked", "numbers")
#: The sets whose answers show a fact, by the key of the row.
SHOWN_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("takes", "refuses", "kernel", "refuse", "mixed_types", "widened"), _OUTCOMES),
    **dict.fromkeys(("compare", "contiguous", "divides_integers", "mixes_devices", "refuses_cpu_number"), _OUTCOMES),
    **dict.fromkeys(("asks_grad", "calls_parts", "stays_composite", "uses_cpu_kernel"), _OUTCOMES),
    **dict.fromkeys(("nondeterministic", "waits"), ("alerts", "oracle")),
    **dict.fromkeys(("asserts", "words"), ("assertions", "oracle")),
    "indexes": ("alerts", "assertions", "oracle"),
    "list_kernel": ("list_kernels",),
    "never_draws": ("draws", "oracle"),
    "only_reads": ("oracle",),
    "ties": ("ties",),
    # Of an Apple GPU: tools/mac_wheel compares the words with torch's macOS wheels.
    **dict.fromkeys(("mps_refuses", "only_moves", "takes_any_memory"), ()),
}
SETS = sorted({name for names in SHOWN_BY.values() for name in names})

_BITS = """\
CUDA's reductions and scans combine elements in an order that depends on shapes and on the size of the GPU. On the \
virtual GPU, `sum`, `mean`, `prod`, `var`, `std`, `linalg_vector_norm` with p = 2, `mse_loss`, `smooth_l1_loss` and \
`huber_loss` of dense float32 tensors follow the order of an H200, or of the profile's GPU, as PyTorch 2.11 has it; so \
do `cumsum` and `cumprod`. The CPU's order remains for other layouts, float64, and sums over dimensions that others \
separate in memory, such as the gradient of a convolution's bias. x86 processors need AVX2 and FMA for CUDA's order.

The table compares results with an H200's (`tests/recorded/bits.py`). Products of matrices, convolutions, attention \
and batch normalization were not compared bit by bit: their libraries choose the order."""


def list_called(name: str, jobs: int) -> set[str]:
    """Run the cases of a set on the virtual GPU; return the operators that they call, as rows name them."""
    cases = load_set(name)
    place = PLACES["virtual"]
    with tempfile.NamedTemporaryFile("r") as notes:
        os.environ[NOTES] = notes.name
        try:
            record = store.read_answers(cases.record)
            names = [case for case in running.list_names(cases, place) if case in record]
            for _ in running.run_at(cases, place, names, jobs=jobs):
                pass
        finally:
            del os.environ[NOTES]
        called = {line.strip().partition(".")[0] for line in notes}
    return {operator.removeprefix("aten::").removesuffix("_") for operator in called if operator.startswith("aten::")}


def record_called(jobs: int) -> None:
    """Write the sets that call each of PyTorch's own operators."""
    called: dict[str, list[str]] = {}
    for name in SETS:
        operators = list_called(name, jobs)
        print(f"{name}: {len(operators)} operators", flush=True)
        for operator in operators:
            called.setdefault(operator, []).append(name)
    about = {"command": "python tools/record coverage", "driver": "virtual"}
    store.write_file(CALLED, about, dict(sorted(called.items())))


def find_unrecorded(operator: str, row: dict[str, Any], called: dict[str, list[str]]) -> list[str]:
    """List the facts of a row that no record shows."""
    return [key for key in row if not set(called.get(operator, ())).intersection(SHOWN_BY[key])]


def write_page(path: Path = PAGE) -> None:
    """Write docs/operators.md from the contract and the operators that the sets call."""
    path.write_text(format_page(), encoding="utf-8")


def format_page() -> str:
    """Format the page: each operator, its facts, the sets with a case, and the facts without a record."""
    from torchdevice_cuda import contract

    rows, called = contract.read_operators(), store.read_answers(CALLED)
    lines, counts = [], [0, 0]
    for operator in sorted(rows, key=lambda name: (name.strip("_"), name)):
        unrecorded = find_unrecorded(operator, rows[operator], called)
        counts[0] += len(rows[operator])
        counts[1] += len(unrecorded)
        cells = (sorted(rows[operator]), called.get(operator, []), sorted(unrecorded))
        lines.append(f"| `{operator}` | {' | '.join(', '.join(cell) for cell in cells)} |")
    recorded = table.format_share(counts[0] - counts[1], counts[0])
    return "\n".join(
        [
            "# Operators that a GPU computes otherwise\n",
            "`torchdevice_cuda/contract/operators.toml` has a row for each operator whose behavior on a CUDA GPU is "
            "not the CPU kernel's, or about which the virtual GPU needs to know more than its schema. The top of that "
            "file explains the facts. `python tools/record coverage` writes this page.\n",
            "*Called by*: sets of `tools/record` with a record of a GPU and a case that calls the operator. *Not "
            "recorded*: facts that no such set shows; they come from PyTorch's sources. Operators that others call in "
            f"C++ are not seen. {recorded} facts of {len(rows)} operators are recorded.\n",
            "| operator | facts | called by | not recorded |",
            "| --- | --- | --- | --- |",
            *lines,
            "",
            "## Bits of results\n",
            _BITS + "\n",
            *bits_table.format_table(),
            "",
        ]
    )
