"""The build: once for many processes, refused when it is not to be trusted, clear when it cannot be done."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torchdevice_cuda.native import build, op_table

ROOT = Path(__file__).resolve().parents[2]

# Stands in for the compiler: writes what it is asked for, at once, and counts how often it linked.
FAKE_COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo "fake 1.0"; exit 0; fi
out=
previous=
for a in "$@"; do [ "$previous" = -o ] && out=$a; previous=$a; done
[ "$1" = -shared ] && echo linked >> "$LINKS"
sleep 0.1
echo made > "$out"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    compiler = tmp_path / "c++"
    compiler.write_text(FAKE_COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def links(fake: Path) -> int:
    return len((fake / "links").read_text().splitlines())


def test_ten_processes_build_once(fake: Path) -> None:
    code = "from torchdevice_cuda.native import build; print(build.library('cuda', say=lambda line: None))"

    def one(_: int) -> str:
        return subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()

    with ThreadPoolExecutor(10) as pool:
        paths = set(pool.map(one, range(10)))
    assert len(paths) == 1 and links(fake) == 1
    assert not build.refusal(Path(paths.pop()))


def test_what_is_not_to_be_trusted_is_built_again(fake: Path) -> None:
    said: list[str] = []
    path = build.library("cuda", say=said.append)
    assert any("[1/" in line for line in said) and any(line.startswith("built in") for line in said)
    assert build.library("cuda", say=said.append) == path and links(fake) == 1
    path.write_bytes(path.read_bytes()[:-3])
    assert build.refusal(path) == "truncated"
    with pytest.raises(build.BuildError, match="truncated"):
        build.library("cuda", build=False)
    assert build.library("cuda", say=said.append) == path and links(fake) == 2
    path.chmod(0o777)
    assert "written by others" in build.refusal(path)
    build.library("cuda", say=said.append)
    assert links(fake) == 3 and any("building it again" in line for line in said)
    path.parent.chmod(0o777)
    assert "written by others" in build.refusal(path)
    build.library("cuda", say=said.append)
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")
    assert build.refusal(path) == "not a plain file"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_library_of_another_user_is_refused(fake: Path) -> None:
    path = build.library("cuda", say=lambda line: None)
    os.chown(path, 12345, -1)
    assert "belongs to another user" in build.refusal(path)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match=r"C\+\+17 compiler.*no-such-compiler.*Install one"):
        build.library("cuda")
    assert not build.has_compiler()


def test_what_was_built_serves_without_a_compiler(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image is built where there is a compiler and run where there is none."""
    path = build.library("cuda", say=lambda line: None)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.library("cuda") == build.library("cuda", build=False) == path


def test_a_failing_compiler_says_why(fake: Path) -> None:
    (fake / "c++").write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo x\necho it is broken >&2\nexit 3\n')
    with pytest.raises(build.BuildError, match="(?s)compiling .* failed .* returned 3.*it is broken"):
        build.library("cuda", say=lambda line: None)


def test_kinds(fake: Path) -> None:
    assert build.library("mps", say=lambda line: None) != build.library("cuda", say=lambda line: None)
    with pytest.raises(ValueError, match="cuda, mps"):
        build.library("tpu")


def test_operator_table() -> None:
    rows = {name: (method, flags) for name, method, flags in op_table.rows(op_table.yaml_path())}
    assert len(rows) > 2000
    assert rows["mm"][0] == "wrapper_CUDA_mm" and rows["mm"][1] & 3 == 3  # compares devices; an Apple GPU has it
    assert rows["add.Tensor"][1] & 1 == 0
    assert rows["index_select"][0] == "wrapper_CUDA__index_select"
    assert not rows["_linalg_eigh.eigenvalues"][1] & 2
