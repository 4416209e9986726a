"""Every name of torch.cuda is there, of the same kind, with the same signature and members (tools/gap.py)."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, child, run_forked
from harness.processes import ROOT

GAP, DATA = ROOT / "tools" / "gap.py", ROOT / "tests" / "data"
RELEASE = torch.__version__.partition("+")[0]
#: Of a CUDA build, which has classes where CPU builds have dummies.
SURFACE = DATA / f"surface-{RELEASE}.json"


def test_no_gap_to_the_installed_torch() -> None:
    done = run_forked(GAP, "--installed", "--log", DATA / "gaps.json")
    assert f"torch {torch.__version__}, shadow tree: " in done.out
    assert "0 missing, 0 different" in done.out
    if RELEASE in json.loads((DATA / "gaps.json").read_text()):
        assert "0 that gaps.json does not have" in done.out


@pytest.mark.skipif(not SURFACE.exists(), reason="of this release, none was recorded; the installed one is compared")
def test_no_gap_to_a_cuda_build_of_this_torch() -> None:
    done = run_forked("-m", "torchdevice_cuda", "--driver", "cpu", GAP, SURFACE)
    assert "0 missing, 0 different" in done.out


#: What a surface says of a release to come, and what the tool says then.
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "missing: torch.cuda.of_the_future": ("of_the_future", {"kind": "function"}),
    "__all__ differs: torch.cuda.of_the_future": ("of_the_future", {"kind": "function"}),
    "signature differs: torch.cuda.set_device: (device, gently=True) recorded": (
        "set_device",
        {"kind": "function", "signature": "(device, gently=True)"},
    ),
    "missing member: torch.cuda.Stream.hurry": ("Stream", {"kind": "class", "members": ["hurry", "query"]}),
    "kind differs: torch.cuda.is_available: data recorded, function here": ("is_available", {"kind": "data"}),
}


def test_the_tool_names_what_a_release_has_changed(tmp_path: Path) -> None:
    surface = tmp_path / "surface.json"
    published = [*vars(torch.cuda)["__all__"], "of_the_future"]
    later = {"torch.cuda": {"all": published, "names": dict(CHANGES.values())}, "torch.cuda.of_later": {"all": None}}
    later["torch.cuda.of_later"]["names"] = {}
    surface.write_text(json.dumps(later))
    done = run_forked("-m", "torchdevice_cuda", "--driver", "cpu", GAP, surface, check=False)
    assert done.status == 1
    for line in (*CHANGES, "missing module: torch.cuda.of_later"):
        assert f"\n{line}" in f"\n{done.out}"
    assert "4 names compared, 3 missing, 3 different" in done.out


#: What a release has that the one before had not, and the other way round, and what the tool says of it.
NEWS = {
    "new since surface-0.1.0: module torch.cuda.nvtx": ("torch.cuda.nvtx", None, None),
    "new since surface-0.1.0: torch.cuda.is_available()": ("torch.cuda", "is_available", None),
    "gone since surface-0.1.0: torch.cuda.of_old": ("torch.cuda", "of_old", {"kind": "data"}),
    "gone since surface-0.1.0: module torch.cuda.of_old": ("torch.cuda.of_old", None, {}),
    "changed since surface-0.1.0: torch.cuda.set_device: (device, gently=True) before, (device) now": (
        "torch.cuda",
        "set_device",
        {"kind": "function", "signature": "(device, gently=True)"},
    ),
    "new since surface-0.1.0: torch.cuda.Stream.query": ("torch.cuda", "Stream", {"kind": "class", "members": []}),
}


@pytest.mark.slow
def test_the_tool_names_what_stock_has_changed(tmp_path: Path) -> None:
    """A new name of a release is reported, even if stock's own code implements it and nothing is missing."""
    earlier, now = tmp_path / "surface-0.1.0.json", tmp_path / "now.json"
    run_forked(GAP, now, "--record")
    surface = json.loads(now.read_text())
    for module, name, before in NEWS.values():
        names = surface.setdefault(module, {"all": None, "names": {}})["names"]
        if name is not None:
            names[name] = before
        elif before is None:
            del surface[module]
    surface["torch.cuda"]["names"] = {name: row for name, row in surface["torch.cuda"]["names"].items() if row}
    earlier.write_text(json.dumps(surface))
    done = run_forked(GAP, "--installed", "--since", earlier)
    assert "0 missing, 0 different" in done.out
    said = [line for line in done.out.splitlines() if " since " in line]
    assert set(NEWS) <= {line.replace(" -> bool", "") for line in said}
    of_modules = [line for line in said if "nvtx." not in line and ".Stream." not in line]
    assert len(of_modules) == len(NEWS) - 1


def test_the_tool_compares_with_the_release_before() -> None:
    versions = ("2.12.1", "2.13.0+cpu", "2.14.0", "2.15.0", "2.16.0")
    done = run_forked("-c", f"import sys; sys.path.insert(0, {str(GAP.parent)!r}); import gap; "
                  f"print(*map(gap.recorded_before, {versions}))")  # fmt: skip
    names = [Path(text).stem for text in done.out.split()]
    assert names == ["None", "None", "surface-2.13.0", "surface-2.13.0", "surface-2.15.0"]


def test_the_tool_names_what_nobody_answers(tmp_path: Path) -> None:
    """Names that files ask torch._C for, in each of the ways there are."""
    (tmp_path / "asks.py").write_text(
        "from torch._C import _cuda_ofLater, _add_docstr\n"
        "from torch._C import (\n    _CudaOfLater,\n    _cuda_getDevice,\n)\n"
        "torch._C._nccl_of_later(3)\n"
        "_C._gds_of_later\n"
    )
    done = run_forked("-c", f"import sys; sys.path.insert(0, {str(GAP.parent)!r}); import gap, pathlib; "
                  f"print(sorted(gap.asked_of_c(pathlib.Path({str(tmp_path)!r}))))")  # fmt: skip
    assert done.out.strip() == str(
        ["_CudaOfLater", "_cuda_getDevice", "_cuda_ofLater", "_gds_of_later", "_nccl_of_later"]
    )


def test_private_names_are_found_where_torch_reads_them(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "own.py").write_text("torch.cuda._of_its_own\n")
    (tmp_path / "reads.py").write_text(
        "torch.cuda._read(3)\n"
        "x = torch.cuda.memory._read\n"
        "from torch.cuda import (\n    Stream,\n    _imported,\n)\n"
        "from torch.cuda._utils import _below, public\n"
    )
    done = run_forked("-c", f"import sys; sys.path.insert(0, {str(GAP.parent)!r}); import gap, pathlib; "
                  f"print(sorted(map('.'.join, gap.read_of_cuda(pathlib.Path({str(tmp_path)!r})))))")  # fmt: skip
    assert done.out.strip() == str(
        ["torch.cuda._imported", "torch.cuda._read", "torch.cuda._utils", "torch.cuda._utils._below"]
        + ["torch.cuda.memory._read"]
    )


def test_a_name_outside_the_log_fails(tmp_path: Path) -> None:
    """A log has what a release brought; what comes to it later is said with how bad it is, and fails the tool."""
    before, after, log = tmp_path / "surface-1.0.json", tmp_path / "surface-2.0.json", tmp_path / "gaps.json"
    names: dict[str, Any] = {"kept": {"kind": "function", "signature": "(a)"}, "old": {"kind": "data"}}
    later: dict[str, Any] = {"kept": {"kind": "function", "signature": "(a, b=1)"}, "of_now": {"kind": "data"}}
    for file, held in ((before, names), (after, later)):
        file.write_text(json.dumps({"torch.cuda": {"all": None, "names": held}}))
    arguments = (GAP, after, "--since", before, "--log", log)
    assert run_forked(*arguments, "--write").status == 0
    rows = json.loads(log.read_text())["2.0"]
    assert [(row["what"], row["severity"]) for row in rows] == [("changed", "low"), ("gone", "low"), ("new", "low")]
    assert "3 in all, 0 that gaps.json does not have" in run_forked(*arguments).out
    later["later_still"], later["old"] = {"kind": "function"}, names["old"]
    after.write_text(json.dumps({"torch.cuda": {"all": None, "names": later}}))
    done = run_forked(*arguments, check=False)
    assert done.status == 1
    assert "not in gaps.json: low: new: torch.cuda.later_still; none while" in done.out
    assert "no gap any more, gaps.json has it: gone: torch.cuda.old" in done.out


@child(CPU)
def test_c_names_of_cuda_builds_are_there() -> None:
    names = (DATA / "cuda-only-c-names-2.13.0.txt").read_text().split()
    assert len(names) > 100
    assert [name for name in names if not hasattr(torch._C, name)] == []


@child(CPU)
def test_no_two_names_share_a_function() -> None:
    """The compiler refuses a function that it finds under two names."""
    names: dict[int, list[str]] = {}
    for name, value in vars(torch.cuda).items():
        if isinstance(value, types.FunctionType):
            names.setdefault(id(value), []).append(name)
    assert len(names) > 50
    assert [shared for shared in names.values() if len(shared) > 1] == []
