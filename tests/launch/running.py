"""Runs programs with the command line and without it."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import Finished, clean_environment, run
from harness.processes import ROOT

_startup = runpy.run_path(str(ROOT / "tools" / "bench" / "startup.py"))
make_environment, our_packages = _startup["make_environment"], _startup["our_packages"]
OURS = ("-m", "torchdevice_cuda")
PROGRAMS = Path(__file__).with_name("programs")


def environment(path: Sequence[Path] = (ROOT,), **changes: str) -> dict[str, str]:
    """Return the environment of a child that finds only ``path``, and leaves nothing in the folders it is run in."""
    found = {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1", **changes}
    return {name: value for name, value in clean_environment(**found).items() if value or name != "PYTHONPATH"}


def python(*words: str, folder: Path | None = None, text: str = "", env: Mapping[str, str] | None = None) -> Finished:
    """Run Python and return its output without the parts that differ from run to run."""
    done = run([sys.executable, *words], environment=env or environment(), folder=folder, text=text)
    out, err = (re.sub(r"0x[0-9a-f]+", "0x", printed) for printed in (done.out, done.err))
    return dataclasses.replace(done, out=out, err=err)


def alike(
    *words: str, folder: Path, text: str = "", flags: Sequence[str] = (), options: Sequence[str] = ()
) -> Finished:
    """Run a program plainly and through the command line; they must end alike. How they did."""
    plain = python(*flags, *words, folder=folder, text=text)
    ours = python(*flags, *OURS, *options, *words, folder=folder, text=text)
    assert ours.status == plain.status, ours
    assert ours.out == plain.out
    assert ours.err == plain.err
    return plain


def write(path: Path, text: str) -> Path:
    """Return a file with a text, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def copy(program: str, folder: Path) -> str:
    """Return a program of ours in another folder; its name."""
    shutil.copy(PROGRAMS / program, folder)
    return program
