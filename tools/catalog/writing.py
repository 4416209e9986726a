"""The catalog: how each callable meets devices, what we do with it, what came of calling it; as JSON and as a page."""

from __future__ import annotations

import collections
import inspect
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import measuring
from listing import NAMESPACES, listed, resolve

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "data" / "operators-cuda-2.11.json.xz"
WORKS, FELL_BACK, REFUSED, DIFFERS, NOT_RUN = "works", "works by fallback", "refused like CUDA", "differs", "not run"
PRIORITIES = ("core", "neural networks", "the rest")
MOVERS = {"to", "cuda", "cpu", "pin_memory", "to_empty", "type", "type_as", "copy_", "share_memory_"}


def patched(driver: str) -> set[str]:
    """The names that we change for a driver."""
    launcher, environment = measuring.DRIVERS[driver]
    command = [sys.executable, "-m", "torchdevice_cuda", "--patches", *launcher[2:]]
    text = subprocess.run(command, env={**measuring.os.environ, **environment}, capture_output=True, text=True).stdout
    return {line.split()[0] for line in text.splitlines()[1:] if line.strip()}


def meets(name: str, told: dict[str, Any]) -> str:
    """How a callable meets devices: from its name, its parameters and what came of calling it."""
    import torch

    target = resolve(name)
    short = name.rpartition(".")[2]
    if short in MOVERS and ("Tensor" in name or "Module" in name or "nn." in name):
        return "moves"
    if any(target is maker for maker in torch.utils._device._device_constructors()):
        return "creates"
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        parameters = {}
    if "device" in parameters:
        return "creates"
    result = json.dumps(told.get("result", ""))
    return "consumes" if "torch.Tensor." in name or '["torch.' in result else "indifferent"


def mlx_operators() -> set[str]:
    """The operators that MLX can compute."""
    sys.path.insert(0, str(ROOT))
    from torchdevice_cuda.fallback.mlx_ops import TABLE

    return {str(key).removeprefix("aten::").partition(".")[0] for key in TABLE}


def refusals() -> set[str]:
    """Operators whose samples of float32 a real GPU refuses."""
    with lzma.open(RECORD, "rt") as file:
        record = json.load(file)
    return {
        name
        for name, rows in record.items()
        if any(isinstance(sample, dict) for sample in rows.get("float32", {}).get("samples", []))
    }


def status(name: str, reference: dict[str, Any], told: dict[str, Any] | None, refused: set[str]) -> tuple[str, str]:
    """What came of a callable on a driver, and what there is to say about it."""
    if why := measuring.left_out(name):
        return NOT_RUN, why
    only_cuda = name.startswith("torch.cuda.")
    if not only_cuda and "call" not in reference:
        return NOT_RUN, f"no arguments were found that stock takes: {reference.get('error', 'it was not tried')}"
    if told is None:
        return NOT_RUN, "it was not tried"
    if "error" in told:
        if only_cuda:
            return NOT_RUN, f"no arguments were found: {told['error']}"
        short = name.removeprefix("torch.Tensor.").removeprefix("torch.")
        return (REFUSED, told["error"]) if short in refused else (DIFFERS, told["error"])
    here, there = told["result"], reference.get("result")
    if not only_cuda:
        if reference["random"] or told["random"]:
            here, there = measuring.without_numbers(here), measuring.without_numbers(there)
        if not measuring.close(there, here):
            return DIFFERS, f"stock: {json.dumps(there)[:120]} here: {json.dumps(here)[:120]}"
    return (FELL_BACK, ", ".join(told["left"])) if told["left"] else (WORKS, "")


def measured(drivers: list[str], every: int, kept: Path | None, jobs: int) -> dict[str, Any]:
    """Runs everything."""
    import torch

    entries = listed()[::every]
    if kept and kept.exists():
        reference = json.loads(kept.read_text())
    else:
        reference = measuring.run("stock", measuring.rows_for(entries, None), jobs)
        if kept:
            kept.write_text(json.dumps(reference))
    found = {driver: measuring.run(driver, measuring.rows_for(entries, reference), jobs) for driver in drivers}
    changed = {driver: patched(driver) for driver in drivers}
    mlx, refused = mlx_operators(), refusals()
    rows = {}
    for entry in entries:
        told = reference.get(entry.name, {})
        served = entry.namespace.startswith("torch.cuda")
        ours = {
            driver: "served" if served else "patched" if entry.name in names else "passed through"
            for driver, names in changed.items()
        }
        outcome = {}
        for driver in drivers:
            what, why = status(entry.name, told, found[driver].get(entry.name), refused)
            outcome[driver] = {"status": what, **({"why": why} if why else {})}
        rows[entry.name] = {
            "namespace": entry.namespace,
            "priority": entry.priority,
            "kind": entry.kind,
            "devices": meets(entry.name, told),
            "ours": ours,
            "mlx": entry.name.rpartition(".")[2] in mlx,
            "drivers": outcome,
        }
    return {"torch": torch.__version__, "drivers": drivers, "callables": rows}


def as_text(catalog: dict[str, Any]) -> str:
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in catalog["callables"].items())
    head = json.dumps({key: value for key, value in catalog.items() if key != "callables"})
    return f'{head[:-1]}, "callables": {{\n{rows}\n}}}}\n'


def counted(catalog: dict[str, Any], driver: str, **where: str) -> collections.Counter[str]:
    rows = catalog["callables"].values()
    return collections.Counter(
        row["drivers"][driver]["status"] for row in rows if all(row[key] == value for key, value in where.items())
    )


def shares(counts: collections.Counter[str]) -> tuple[int, int, float]:
    """How many there are, how many were run, and what share of those works or is refused as CUDA does."""
    run = counts.total() - counts[NOT_RUN]
    return counts.total(), run, 100 * (run - counts[DIFFERS]) / max(1, run)


def totals(catalog: dict[str, Any]) -> str:
    lines = []
    for driver in catalog["drivers"]:
        counts = counted(catalog, driver)
        total, run, share = shares(counts)
        lines.append(f"{driver}: {total} callables, {run} run, {share:.2f}% of them work; {dict(counts)}")
    return "\n".join(lines)


def table(head: list[str], rows: list[list[Any]]) -> str:
    return "\n".join(["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]])


def page(catalog: dict[str, Any]) -> str:
    """docs/coverage.md."""
    parts = [
        "# What works, callable by callable",
        f"PyTorch {catalog['torch']}: {len(catalog['callables'])} public functions, classes and methods, "
        "called on "
        "stock torch and then, with the same arguments on the GPU, on each driver. `python tools/catalog` makes this "
        "page; nothing in it is typed by hand. *Works*: the same types, shapes and numbers as stock's. "
        "*By fallback*: an "
        "operator left the Apple GPU for MLX or the CPU. *Refused like CUDA*: a real GPU refused the same operator. "
        "`mps` is the emulated Apple GPU.",
    ]
    columns = [WORKS, FELL_BACK, REFUSED, DIFFERS, NOT_RUN]
    for driver in catalog["drivers"]:
        rows = []
        for priority in (*PRIORITIES, None):
            counts = counted(catalog, driver, **({"priority": priority} if priority else {}))
            _, _, share = shares(counts)
            rows.append([priority or "all", counts.total(), *(counts[name] for name in columns), f"{share:.2f}%"])
        parts += [f"## {driver}", table(["priority", "callables", *columns, "of those run"], rows)]
        spaces = []
        for namespace in NAMESPACES:
            counts = counted(catalog, driver, namespace=namespace)
            if counts.total():
                spaces.append([f"`{namespace}`", counts.total(), *(counts[name] for name in columns)])
        parts.append(table(["namespace", "callables", *columns], spaces))
        wrong = [
            [f"`{name}`", row["drivers"][driver].get("why", "").replace("|", "\\|").replace("\n", " ")[:160]]
            for name, row in catalog["callables"].items()
            if row["drivers"][driver]["status"] == DIFFERS
        ]
        if wrong:
            parts += [f"What differs on {driver}:", table(["callable", "how"], wrong)]
    return "\n\n".join(parts) + "\n"


def regressions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What worked in one catalog and does not in a later one."""
    good = {WORKS, FELL_BACK, REFUSED}
    lost = []
    for name, row in old["callables"].items():
        for driver, was in row["drivers"].items():
            now = new["callables"].get(name, {}).get("drivers", {}).get(driver)
            if was["status"] in good and now and now["status"] == DIFFERS:
                lost.append(f"{driver}: {name}: {was['status']}, now {now['status']}: {now.get('why', '')}")
    return lost
