"""On macOS a library's digest is beside it: the linker signs the library up to its last byte."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from native.compilers import Bench, damage
from torchdevice_cuda import trust
from torchdevice_cuda.native import build, sealing, toolchain


@pytest.fixture(autouse=True)
def as_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_BESIDE", True)


def _quietly(**how: bool) -> Path:
    return build.library("cuda", say=lambda line: None, **how)


def _digest(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def test_the_linkers_output_is_not_followed(bench: Bench) -> None:
    path = _quietly()
    assert trust._MARK not in path.read_bytes()
    assert _digest(path).read_text() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert _quietly(build=False) == path
    assert bench.links == 1


SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "the library": (damage, "damaged"),
    "no digest": (lambda path: _digest(path).unlink(), "damaged"),
    "the digest of another": (lambda path: _digest(path).write_text("0" * 64), "damaged"),
    "a digest that all may write": (lambda path: _digest(path).chmod(0o666), "written by others"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_untrusted_libraries_are_built_again(what: str, bench: Bench) -> None:
    path, (spoil, said) = _quietly(), SPOILT[what]
    spoil(path)
    assert said in build.flaw(path)
    assert _quietly() == path
    assert bench.links == 2
    assert not build.flaw(path)


#: What xcode-select answers: whether there are command line tools.
ANSWERS: dict[str, Callable[[], Any]] = {
    "there are tools": lambda: types.SimpleNamespace(returncode=0),
    "there are none": lambda: types.SimpleNamespace(returncode=2),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("folder", ["/usr/bin", "/opt/homebrew/bin"])
def test_a_compiler_that_would_only_open_a_dialog_is_not_started(
    answer: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def run(command: list[str], **options: Any) -> Any:
        started.append(command[0])
        return ANSWERS[answer]()

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(shutil, "which", lambda name: f"{folder}/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    there = answer == "there are tools" or folder != "/usr/bin"
    assert toolchain.has_compiler() == there
    assert set(started) <= {"/usr/bin/xcode-select"}
    assert bool(started) == (folder == "/usr/bin")
    if not there:
        with pytest.raises(build.BuildError, match="xcode-select --install"):
            toolchain.compiler()
