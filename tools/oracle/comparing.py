"""What a driver answers, against the record and what is expected to differ from it.

A probe's answer is often a list: each of its items is a fact of its own, ``amp.promotions#3``.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import running
import tomllib
import torch
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
SHOWN = 400
#: Tensors on the cpu driver say cpu: nothing else would be true. What is asked is all the rest.
SAYS = {"cpu": "cpu"}


def expected(driver: str) -> dict[str, str]:
    """Patterns of the facts that a driver does not share with the GPU, with the reason."""
    rows = tomllib.loads(EXPECTED.read_text()).get("different", []) if EXPECTED.exists() else []
    release = tuple(map(int, torch.__version__.split(".")[:2]))
    return {
        pattern: row["why"]
        for row in rows
        if driver in row["drivers"] and release >= tuple(map(int, row.get("since", "2.6").split(".")))
        for pattern in row["facts"]
    }


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


def facts(name: str, there: list[Any], here: list[Any]) -> dict[str, tuple[Any, Any]]:
    """The facts of an answer: the GPU's and ours."""
    a, b = there[1], here[1]
    if there[0] == here[0] == "ok" and isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return {f"{name}#{i}": pair for i, pair in enumerate(zip(a, b, strict=True))}
    if there[0] == "ok" and isinstance(a, list):
        return {f"{name}#{i}": (part, here) for i, part in enumerate(a)}
    return {name: (there, here)}


def believed(text: str, driver: str) -> Any:
    """Answers, with the GPU's name as tensors on a driver say it."""
    return json.loads(text.replace("cuda:0", SAYS.get(driver, "cuda:0")))


def least(driver: str) -> int:
    """How many facts have to be as on the GPU when all are asked."""
    return int(tomllib.loads(EXPECTED.read_text()).get("least", {}).get(driver, 0))


def compare(options: argparse.Namespace) -> int:
    """Prints what differs and is not expected to, and what no longer differs."""
    golden = believed((options.golden or GOLDEN).read_text(), options.driver)
    running.load()
    names = [name for name in running.chosen(options.only) if options.slow or not PROBES[name].slow]
    unrecorded = [name for name in names if name not in golden["answers"]]
    names = [name for name in names if name in golden["answers"]]
    if options.answers:
        found = json.loads(options.answers.read_text())
        names = [name for name in names if name in found]
    else:
        found = answers(options.driver, names, options.jobs)
    if options.json:
        options.json.write_text(json.dumps(found, indent=0, sort_keys=True))
    found = believed(json.dumps(found), options.driver)
    known = expected(options.driver)
    used: set[str] = set()
    good = whole = total = listed = 0
    surprising, mended = [], []
    for name in names:
        parts = facts(name, golden["answers"][name], found.get(name, [running.LOST, "no answer"]))
        differing = [fact for fact, (a, b) in parts.items() if not alike(a, b, PROBES[name].tolerance)]
        total += len(parts)
        good += len(parts) - len(differing)
        whole += not differing
        for fact, (a, b) in parts.items():
            pattern = next((word for word in known if fnmatch.fnmatchcase(fact, word)), None)
            if fact in differing:
                used.add(pattern or "")
                listed += pattern is not None
                if pattern is None:
                    surprising.append(fact)
                if pattern is None or options.verbose:
                    why = f": {known[pattern]}" if pattern else ""
                    print(f"{fact}{why}\n    GPU:  {json.dumps(a)[:SHOWN]}\n    here: {json.dumps(b)[:SHOWN]}")
            elif pattern == fact:
                mended.append(fact)
    asked = set(names)
    idle = [word for word in known if word not in used and word.partition("#")[0] in asked]
    for fact in sorted({*mended, *idle}):
        print(f"{fact}: as on the GPU, take it off the list")
    for name in unrecorded:
        print(f"{name}: not recorded")
    print(
        f"{options.driver}: {good} of {total} facts as on {golden['about']['gpu']} "
        f"({100 * good / max(1, total):.1f}%), {listed} differ as expected; "
        f"{whole} of {len(names)} probes in every fact"
    )
    few = options.slow and not options.only and good < least(options.driver)
    if few:
        print(f"fewer than {least(options.driver)}")
    sys.stdout.flush()
    return int(bool(surprising or mended or idle or unrecorded or few or not names))
