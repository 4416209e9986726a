"""The build: once for many processes, refused when it is not to be trusted, clear when it cannot be done."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import python

from torchdevice_cuda.native import build, op_table

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


def _quietly(line: str) -> None:
    """Nobody wants to hear how it goes."""


def test_ten_processes_build_once(fake: Path) -> None:
    environment = {name: os.environ[name] for name in ("CXX", "LINKS", "TORCHDEVICE_CACHE_DIR")}

    def one(_: int) -> str:
        return python("-m", "torchdevice_cuda.native.build", environment=environment).out.strip()

    with ThreadPoolExecutor(10) as pool:
        paths = set(pool.map(one, range(10)))
    assert len(paths) == 1
    assert links(fake) == 1
    assert not build.refusal(Path(paths.pop()))


def test_a_build_says_how_it_goes(fake: Path) -> None:
    said: list[str] = []
    build.library("cuda", say=said.append)
    assert any("[1/" in line for line in said)
    assert any(line.startswith("built in") for line in said)


def test_what_was_built_is_found(fake: Path) -> None:
    path = build.library("cuda", say=_quietly)
    assert build.library("cuda", say=_quietly) == path
    assert links(fake) == 1


def test_what_is_truncated_is_built_again(fake: Path) -> None:
    path = build.library("cuda", say=_quietly)
    path.write_bytes(path.read_bytes()[:-3])
    assert build.refusal(path) == "truncated"
    with pytest.raises(build.BuildError, match="truncated"):
        build.library("cuda", build=False)
    assert build.library("cuda", say=_quietly) == path
    assert links(fake) == 2


def test_what_others_may_write_is_built_again(fake: Path) -> None:
    said: list[str] = []
    path = build.library("cuda", say=_quietly)
    path.chmod(0o777)
    assert "written by others" in build.refusal(path)
    build.library("cuda", say=said.append)
    assert any("building it again" in line for line in said)
    assert links(fake) == 2


def test_a_folder_where_others_may_write_is_closed(fake: Path) -> None:
    path = build.library("cuda", say=_quietly)
    path.parent.chmod(0o777)
    assert "written by others" in build.refusal(path)
    assert build.library("cuda", say=_quietly) == path
    assert not build.refusal(path)


def test_a_link_is_refused(fake: Path) -> None:
    path = build.library("cuda", say=_quietly)
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")
    assert build.refusal(path) == "not a plain file"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_library_of_another_user_is_refused(fake: Path) -> None:
    path = build.library("cuda", say=_quietly)
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
    path = build.library("cuda", say=_quietly)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.library("cuda") == build.library("cuda", build=False) == path


def test_a_failing_compiler_says_why(fake: Path) -> None:
    (fake / "c++").write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo x\necho it is broken >&2\nexit 3\n')
    with pytest.raises(build.BuildError, match="(?s)compiling .* failed .* returned 3.*it is broken"):
        build.library("cuda", say=_quietly)


def test_kinds(fake: Path) -> None:
    assert build.library("mps", say=_quietly) != build.library("cuda", say=_quietly)
    with pytest.raises(ValueError, match="cuda, mps"):
        build.library("tpu")


@pytest.fixture(scope="module")
def rows() -> dict[str, tuple[str, int]]:
    """The name of the kernel and the flags of each operator: 1 compares devices, 2 an Apple GPU has it."""
    return {name: (method, flags) for name, method, flags in op_table.rows(op_table.yaml_path())}


def test_the_operator_table_is_large_enough(rows: dict[str, tuple[str, int]]) -> None:
    assert len(rows) > 2000


@pytest.mark.parametrize(("name", "method"), [("mm", "mm"), ("index_select", "_index_select")])
def test_names_of_kernels(rows: dict[str, tuple[str, int]], name: str, method: str) -> None:
    assert rows[name][0] == f"wrapper_CUDA_{method}"


@pytest.mark.parametrize(
    ("name", "flag", "is_set"),
    [("mm", 1, True), ("mm", 2, True), ("add.Tensor", 1, False), ("_linalg_eigh.eigenvalues", 2, False)],
)
def test_flags_of_operators(rows: dict[str, tuple[str, int]], name: str, flag: int, is_set: bool) -> None:
    assert bool(rows[name][1] & flag) == is_set
