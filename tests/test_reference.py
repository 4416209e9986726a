"""The reference in docs/ is complete: names of the package, options of the command line and of pytest."""

from __future__ import annotations

import re
import sys

from harness import clean_environment, run
from harness.processes import ROOT

import torchdevice_cuda

DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


def has(page: str, word: str) -> bool:
    """Return whether a page has a word in code, alone or with others."""
    return re.search(rf"`[^`]*(?<![\w-]){re.escape(word)}(?![\w-])[^`]*`", DOCS[page]) is not None


def test_public_names_are_in_it() -> None:
    (members,) = re.findall(r"members: \[(.*)\]", DOCS["api.md"])
    lacking = [name for name in torchdevice_cuda.__all__ if name not in members.split(", ") and not has("api.md", name)]
    assert lacking == []


def test_options_of_the_command_line_are_in_it() -> None:
    helped = run([sys.executable, "-m", "torchdevice_cuda", "--help"], environment=clean_environment()).out
    flags = set(re.findall(r"^  (--[a-z0-9-]+)", helped, re.MULTILINE))
    assert len(flags) > 30
    assert sorted(flag for flag in flags if not has("settings.md", flag) and not has("api.md", flag)) == []


def test_options_of_pytest_are_in_it() -> None:
    words = ["-p", "torchdevice_cuda.integrations.pytest_plugin", "--help"]
    environment = clean_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    helped = run([sys.executable, "-m", "pytest", *words], environment=environment, folder=ROOT / "docs").out
    options = set(re.findall(r"^  --torchdevice(-[a-z-]+)", helped, re.MULTILINE))
    assert len(options) > 8
    assert (
        sorted(
            each for each in options if not has("testing.md", each) and f"torchdevice{each}" not in DOCS["testing.md"]
        )
        == []
    )
