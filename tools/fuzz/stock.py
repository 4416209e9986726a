"""Faults of torch's own compiler: what a compiled program does wrong on stock torch's CPU, too, is not the driver's."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REASON = "stock's compiler does the same on the CPU"
#: Seconds that a short program may take on a busy machine.
PATIENCE = 600
#: Characters of a message that have to be the same.
_BEGINNING = 160
_VALUES = re.compile(r"(.*), reference (.*) at (\d+), \d+ differ \((.*)\)")


def ask_stock(program: dict[str, Any], folder: Path, plant: str = "") -> list[dict[str, str]]:
    """Compile a program on stock torch, on the CPU; list in what it differs from stock's eager."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHDEVICE_")}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "stock")
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    given = json.dumps({"again": program, "plant": plant})
    command = [sys.executable, str(HERE / "worker.py"), given]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=True)
    except subprocess.TimeoutExpired:
        print(f"stock's compiler did not answer in {PATIENCE} s", file=sys.stderr)
        return []
    except subprocess.CalledProcessError as error:
        last = (error.stderr.splitlines() or [""])[-1]
        print(f"stock's compiler could not be asked, status {error.returncode}: {last}", file=sys.stderr)
        return []
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found: list[dict[str, str]] = lines[-1]["differences"]
    return found


def has_the_same(found: list[dict[str, str]], stocks: list[dict[str, str]]) -> bool:
    """Tell whether each difference that was found is stock's, too."""
    return all(any(are_alike(one, other) for other in stocks) for one in found)


def are_alike(ours: dict[str, str], stocks: dict[str, str]) -> bool:
    """Tell whether two differences are one fault: of one kind, in one variable, with one error or the same values."""
    if (ours["field"], ours["name"]) != (stocks["field"], stocks["name"]):
        return False
    if ours["field"] == "error":
        return _begin(ours["detail"]) == _begin(stocks["detail"])
    one, other = _VALUES.fullmatch(ours["detail"]), _VALUES.fullmatch(stocks["detail"])
    if one is None or other is None:
        return ours["detail"] == stocks["detail"]
    return one[4] == other[4] and all(_is_near(one[part], other[part]) for part in (1, 2))


def _begin(detail: str) -> str:
    """Take the beginning of an error's text, without what depends on the device or on the order of a set."""
    text = re.sub(r"\bcuda(:\d+)?\b", "cpu", detail.replace("torch.cuda.", "torch."))
    text = re.sub(r"\bCUDA(\w+Type)\b", r"CPU\1", text)
    text = re.sub(r"\bs\d+\b", "s", text)  # symbols of dynamic shapes
    found = re.search(r"error: [^\n]*", text) if "CppCompileError" in text else None
    if found is not None:
        return found[0]
    return text.split("{", 1)[0][:_BEGINNING]


def _is_near(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        a, b = complex(one), complex(other)
    except ValueError:
        return False
    return all(math.isclose(x, y, rel_tol=1e-2, abs_tol=1e-6) for x, y in ((a.real, b.real), (a.imag, b.imag)))
