"""The catalog: for each callable its use of devices, our changes and the verdict of its calls; and its page."""

from __future__ import annotations

import collections
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import comparing
import judging
import measuring
import recording
from judging import DIFFERS, FELL_BACK, NOT_RUN, REFUSED, WORKS
from listing import NAMESPACES, Callable_, resolve

ROOT = Path(__file__).resolve().parents[2]
PRIORITIES = ("core", "neural networks", "the rest")
MOVERS = {"to", "cuda", "cpu", "pin_memory", "to_empty", "type", "type_as", "copy_", "share_memory_"}
#: As many names are listed for a reason.
FEW = 500
COLUMNS = [WORKS, FELL_BACK, REFUSED, DIFFERS, NOT_RUN]


def patched(driver: str) -> set[str]:
    """List the names that are patched for a driver."""
    place = measuring.DRIVERS[driver]
    command = [sys.executable, "-m", "torchdevice_cuda", "--patches", *place.options]
    text = subprocess.run(command, env=place.make_environment(), capture_output=True, text=True).stdout
    return {line.split()[0] for line in text.splitlines()[1:] if line.strip()}


def meets(name: str, told: dict[str, Any]) -> str:
    """Classify how a callable involves devices: by its name, its parameters and the results of its calls."""
    from torch.utils import _device

    try:
        target = resolve(name)
    except (AttributeError, ImportError):
        target = None  # of another release than the one that is here
    short = name.rpartition(".")[2]
    if short in MOVERS and ("Tensor" in name or "Module" in name or "nn." in name):
        return "moves"
    if any(target is maker for maker in _device._device_constructors()):
        return "creates"
    try:
        parameters: Any = inspect.signature(target).parameters
    except (TypeError, ValueError):
        parameters = {}
    if "device" in parameters:
        return "creates"
    return "consumes" if "torch.Tensor." in name or comparing.places(told.get("result")) else "indifferent"


def mlx_operators() -> set[str]:
    """List the operators that MLX can compute."""
    sys.path.insert(0, str(ROOT))
    from torchdevice_cuda.fallback.mlx_ops import TABLE

    return {str(key).removeprefix("aten::").partition(".")[0] for key in TABLE}


def measured(drivers: list[str], folder: Path, gpu: dict[str, Any], jobs: int, every: int = 1) -> dict[str, Any]:
    """Run all calls and judge the results."""
    found = recording.runs(drivers, folder, jobs, float("inf"), every, recording.calls_of(gpu))
    changed = {driver: patched(driver) for driver in drivers}
    mlx = mlx_operators()
    rows = {}
    for entry in (Callable_(**entry) for entry in found["entries"]):
        stock = found["stock"].get(entry.name, {})
        served = recording.of_cuda(entry.namespace)
        outcome = {}
        for driver in drivers:
            judged = judging.status(entry.name, driver, stock, found[driver].get(entry.name), gpu)
            ours = "served" if served else "patched" if entry.name in changed[driver] else "passed through"
            made = found[driver].get(entry.name, {}).get("torch")
            outcome[driver] = {**judged, "ours": ours, **({"torch": made} if made and "with" in judged else {})}
        rows[entry.name] = {
            "namespace": entry.namespace,
            "priority": entry.priority,
            "kind": entry.kind,
            "devices": meets(entry.name, stock),
            "mlx": entry.name.rpartition(".")[2] in mlx,
            "drivers": outcome,
        }
    about = {
        "command": f"python tools/record compare catalog --driver {' '.join(map(repr, drivers))}",
        "torch": found["torch"],
        "gpu": f"{gpu['about']['gpu']}, torch {gpu['about']['torch']}",
        "drivers": drivers,
    }
    return {"about": about, "answers": rows}


def counted(catalog: dict[str, Any], driver: str, **where: str) -> collections.Counter[str]:
    rows = catalog["answers"].values()
    return collections.Counter(
        row["drivers"][driver]["status"] for row in rows if all(row[key] == value for key, value in where.items())
    )


def shares(counts: collections.Counter[str]) -> tuple[int, int, float]:
    """Count the callables, those that ran, and the share of those that works or is refused as on CUDA."""
    run = counts.total() - counts[NOT_RUN]
    return counts.total(), run, 100 * (run - counts[DIFFERS]) / max(1, run)


def totals(catalog: dict[str, Any]) -> str:
    lines = []
    for driver in catalog["about"]["drivers"]:
        counts = counted(catalog, driver)
        total, run, share = shares(counts)
        lines.append(f"{driver}: {total} callables, {run} run, {share:.2f}% of them work; {dict(counts)}")
    return "\n".join(lines)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")[:200]


def table(head: list[str], rows: list[list[Any]]) -> str:
    return "\n".join(["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]])


def page(catalog: dict[str, Any]) -> str:
    """Write docs/coverage.md."""
    about = catalog["about"]
    parts = [
        "# Coverage of PyTorch's callables",
        f"PyTorch {about['torch']}: {len(catalog['answers'])} public functions, classes and methods. Each is called on "
        "stock torch on the CPU, with PyTorch's own samples or with arguments made from the types and names of its "
        "parameters, and then on each driver with these arguments on the GPU. `python tools/record page` writes this "
        "page from the record. `mps` is the emulated Apple GPU.",
        f"*Works*: the result equals that of a real GPU ({about['gpu']}) if it was recorded, else that of stock torch: "
        "type, shape, dtype, device and numbers, or the type and message of the error. Of random numbers, and of "
        "numbers that differ from run to run, dtype, shape and range are compared. *By fallback*: it works, with an "
        "operator that fell back from the Apple GPU to MLX or the CPU. *Refused like CUDA*: the real GPU raised the "
        "same error. "
        "*Not run*: below, by reason.",
    ]
    rows = []
    for driver in catalog["about"]["drivers"]:
        for priority in (*PRIORITIES, None):
            counts = counted(catalog, driver, **({"priority": priority} if priority else {}))
            share = f"{shares(counts)[2]:.2f}%"
            rows.append([driver, priority or "all", counts.total(), *(counts[name] for name in COLUMNS), share])
    parts.append(table(["driver", "priority", "callables", *COLUMNS, "of those run"], rows))
    compared = []
    for driver in catalog["about"]["drivers"]:
        how = collections.Counter(row["drivers"][driver].get("with") for row in catalog["answers"].values())
        compared.append([driver, *(how[with_] for with_ in judging.WITH)])
    parts.append(table(["compared with", *judging.WITH], compared))
    releases = sorted({row["drivers"][driver].get("torch", "") for row in catalog["answers"].values()
                       for driver in catalog["about"]["drivers"]} - {""})  # fmt: skip
    made = []
    for driver in catalog["about"]["drivers"]:
        how = collections.Counter(row["drivers"][driver].get("torch") for row in catalog["answers"].values())
        made.append([driver, *(how[release] for release in releases)])
    parts.append(table(["called with torch", *releases], made))
    if len(releases) > 1:
        parts.append(
            "The calls come from several runs: those with the torch release of the GPU's record were made on the GPU's "
            "machine, with its CUDA build."
        )
    for driver in catalog["about"]["drivers"]:
        spaces = []
        for namespace in NAMESPACES:
            counts = counted(catalog, driver, namespace=namespace)
            if counts.total():
                spaces.append([f"`{namespace}`", counts.total(), *(counts[name] for name in COLUMNS)])
        parts += [f"## {driver}, by namespace", table(["namespace", "callables", *COLUMNS], spaces)]
        wrong = [
            [f"`{name}`", cell(row["drivers"][driver].get("why", ""))]
            for name, row in catalog["answers"].items()
            if row["drivers"][driver]["status"] == DIFFERS
        ]
        if wrong:
            parts += [f"Differences on {driver}:", table(["callable", "how"], wrong)]
        parts += [f"Not run on {driver}:", table(["reason", "callables", "which"], not_run(catalog, driver))]
    return "\n\n".join(parts) + "\n"


def not_run(catalog: dict[str, Any], driver: str) -> list[list[Any]]:
    """List reasons with their callables; of many callables, the number in each namespace."""
    reasons: dict[str, list[str]] = {}
    for name, row in catalog["answers"].items():
        if row["drivers"][driver]["status"] == NOT_RUN:
            reasons.setdefault(row["drivers"][driver]["why"].partition(": ")[0], []).append(name)
    told = []
    for reason, names in sorted(reasons.items()):
        spaces = collections.Counter(catalog["answers"][name]["namespace"] for name in names)
        many = ", ".join(f"`{space}` {count}" for space, count in spaces.items())
        few = ", ".join(f"`{name.removeprefix('torch.')}`" for name in names)
        told.append([reason, len(names), few if len(names) <= FEW else many])
    return told


def regressions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """List callables that worked in one catalog and do not in a later one."""
    good = {WORKS, FELL_BACK, REFUSED}
    lost = []
    for name, row in old["answers"].items():
        for driver, was in row["drivers"].items():
            now = new["answers"].get(name, {}).get("drivers", {}).get(driver)
            if was["status"] in good and now and now["status"] in (DIFFERS, NOT_RUN):
                lost.append(f"{driver}: {name}: {was['status']}, now {now['status']}: {now.get('why', '')}")
    return lost
