"""What a driver answers, against the record and what is expected to differ from it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import running
import tomllib
from probing import PROBES, alike

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "oracle"
GOLDEN = FOLDER / "golden-2.11-h200.json"
EXPECTED = FOLDER / "expected.toml"
#: How a driver is started, what has to be in the environment, and whether a fork may use the device.
DRIVERS: dict[str, tuple[list[str], dict[str, str], bool]] = {
    "virtual": (["--gpu", "h200"], {}, True),
    "cpu": (["--gpu", "h200"], {}, True),
    "mps": (["--policy", "faithful", "--gpu", "h200"], {"TORCHDEVICE_EMULATE_MPS": "1"}, False),
}


def expected(driver: str) -> dict[str, str]:
    """The probes that a driver answers otherwise than the GPU, with the reason."""
    rows = tomllib.loads(EXPECTED.read_text())["different"] if EXPECTED.exists() else []
    return {name: row["why"] for row in rows if driver in row["drivers"] for name in row["probes"]}


def chosen(only: list[str]) -> list[str]:
    """The probes that are asked for: all, areas, or some by name."""
    known = running.load()
    names = [name for name in known if not only or name in only or name.partition(".")[0] in only]
    unknown = [word for word in only if not any(word in (name, name.partition(".")[0]) for name in known)]
    if unknown:
        raise SystemExit(f"no such probe or area: {', '.join(unknown)}")
    return names


def answers(driver: str, names: list[str], jobs: int) -> dict[str, Any]:
    """What a driver answers."""
    options, environment, fork = DRIVERS[driver]
    os.environ.update(environment)
    launcher = ["-m", "torchdevice_cuda", "--driver", driver, *options]
    if not fork:
        return {name: found for name, found, _ in running.all_answers(names, running.spawn(launcher), jobs=jobs)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers"
        command = [sys.executable, *launcher, str(running.HERE / "__main__.py"), "ask", "--fork", "--jobs", str(jobs)]
        environment = {**os.environ, "ORACLE_LAUNCHER": " ".join(launcher)}
        subprocess.run([*command, "--answers", str(path), "--names", ",".join(names)], env=environment, check=True)
        return {name: row[0] for name, row in running.read_answers(path).items()}


def places(there: Any, here: Any, tolerance: float, at: str = "") -> list[str]:
    """Where in an answer two differ: a long answer's parts one by one."""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here) and (at == "" or len(there) > 2):
        parts = [places(a, b, tolerance, f"{at}[{i}]") for i, (a, b) in enumerate(zip(there, here, strict=True))]
        return [line for part in parts for line in part]
    if alike(there, here, tolerance):
        return []
    return [f"  {at}\n    GPU:  {json.dumps(there)[:600]}\n    here: {json.dumps(here)[:600]}"]


def compare(options: argparse.Namespace) -> int:
    """Prints what differs and is not expected to, and what no longer differs."""
    golden = json.loads((options.golden or GOLDEN).read_text())
    names = chosen(options.only)
    unrecorded = [name for name in names if name not in golden["answers"]]
    names = [name for name in names if name in golden["answers"]]
    known = expected(options.driver)
    found = answers(options.driver, names, options.jobs)
    if options.json:
        options.json.write_text(json.dumps(found, indent=0, sort_keys=True))
    same = [name for name in names if alike(golden["answers"][name], found[name], PROBES[name].tolerance)]
    different = [name for name in names if name not in same]
    surprising = [name for name in different if name not in known]
    mended = [name for name in same if name in known]
    for name in different if options.verbose else surprising:
        print(f"{name}{': ' + known[name] if name in known else ''}")
        print("\n".join(places(golden["answers"][name], found[name], PROBES[name].tolerance)))
    for name in mended:
        print(f"{name}: as on the GPU, take it off the list")
    for name in unrecorded:
        print(f"{name}: not recorded")
    print(f"{options.driver}: {len(same)} of {len(names)} probes as on {golden['about']['gpu']} ({100 * len(same) / max(1, len(names)):.1f}%),"
          f" {len(different) - len(surprising)} differ as expected")  # fmt: skip
    sys.stdout.flush()
    return int(bool(surprising or mended or unrecorded or not names))
