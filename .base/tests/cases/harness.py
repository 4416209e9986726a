"""Runs every case of a module in the present process and prints what came of each.

A case is a function ``case_...``. It fails by raising; what it returns is for the test to compare.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

MARK = "CASES "


def names(module: str) -> list[str]:
    """The cases of a module, read from its text: the tests' own process need not import torch."""
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text())
    return [
        node.name.removeprefix("case_")
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("case_")
    ]


def program(module: str, preamble: str) -> str:
    """The text of a program that runs a module's cases after ``preamble``."""
    here = str(Path(__file__).resolve().parents[1])
    return (
        f"{preamble}\nimport sys\nsys.path.insert(0, {here!r})\nfrom cases import harness\nharness.main({module!r})\n"
    )


def results(output: str) -> dict[str, Any]:
    """What a program of :func:`program` printed: ``{case: {"value": ...} or {"error": traceback}}``."""
    return json.loads(output.rpartition(MARK)[2])


def main(module: str) -> None:
    """Run the cases and print the results; ``ONLY`` in the environment names the ones to run."""
    cases = importlib.import_module(f"cases.{module}")
    only = os.environ.get("ONLY", "").split(",")
    done: dict[str, dict[str, Any]] = {}
    for name in names(module):
        if only != [""] and name not in only:
            continue
        try:
            done[name] = {"value": getattr(cases, f"case_{name}")()}
        except Exception:
            done[name] = {"error": traceback.format_exc()}
    sys.stdout.flush()
    print(MARK + json.dumps(done))
