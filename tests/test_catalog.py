"""The catalog of PyTorch's callables: what is compared, how it is judged, and that the page is what the record says."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TOOL, CATALOG, PAGE = ROOT / "tools/catalog", ROOT / "tests/data/catalog.json.xz", ROOT / "docs/coverage.md"


@pytest.fixture(scope="module")
def parts() -> Any:
    """The tool's own modules, by name."""
    sys.path.insert(0, str(TOOL))
    yield lambda name: importlib.import_module(name)
    sys.path.remove(str(TOOL))


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_the_page_is_what_the_tool_writes_from_the_record(tmp_path: Path) -> None:
    done = tool("page", CATALOG, tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.md").read_text() == PAGE.read_text()


def test_every_status_has_what_it_was_measured_against(parts: Any) -> None:
    """A status is no more than its evidence: what works was compared, what was not run says why."""
    judging, catalog = parts("judging"), parts("recording").read(CATALOG)
    assert len(catalog["callables"]) > 4000
    for name, row in catalog["callables"].items():
        assert set(row["drivers"]) == set(catalog["drivers"]), name
        for told in row["drivers"].values():
            assert (told["status"] == judging.NOT_RUN) == ("with" not in told), name
            assert told.get("with", judging.GPU) in judging.WITH, name
            if told["status"] in (judging.NOT_RUN, judging.DIFFERS, judging.REFUSED, judging.FELL_BACK):
                assert told["why"], name


TENSOR = ["tensor", "float32", [2], "cpu", [1.0, 2.0]]
THERE = ["tensor", "float32", [2], "cuda", [1.0, 2.0]]
MANY = ["tensor", "float32", [8], "cuda", [1.0, 2.0] * 4]
REFUSAL = {"call": "0:", "error": "RuntimeError: not on a GPU"}


def result(value: Any, **more: Any) -> dict[str, Any]:
    return {"call": "0:", "result": value, "drawn": False, **more}


@pytest.mark.parametrize(
    ("status", "stock", "gpu", "told"),
    [
        ("works", result(TENSOR), None, result(THERE)),
        ("works", result(TENSOR), result(THERE), result(THERE)),
        ("works by fallback", result(TENSOR), None, result(THERE, left=["CPU"])),
        ("differs", result(TENSOR), None, result([*THERE[:4], [1.0, 2.5]])),
        ("differs", result(TENSOR), None, result(["tensor", "float64", *THERE[2:]])),
        ("differs", result(TENSOR), None, result(["tensor", "float32", [1, 2], *THERE[3:]])),
        ("differs", result(TENSOR), None, REFUSAL),
        # On the GPU, it is otherwise than on the CPU: that is what counts.
        ("refused like CUDA", result(TENSOR), REFUSAL, REFUSAL),
        ("differs", result(TENSOR), REFUSAL, result(THERE)),
        ("differs", result(TENSOR), REFUSAL, {**REFUSAL, "error": "RuntimeError: something else"}),
        ("differs", result(TENSOR), result(THERE), result(TENSOR)),
        ("works", {}, result(THERE), result(THERE)),
        ("not run", {}, None, result(THERE)),
        ("not run", {}, None, {"none": "TypeError: no"}),
        ("not run", result(TENSOR), None, None),
        # What is drawn has a dtype, a shape and a range.
        ("works", result(MANY, drawn=True), None, result([*MANY[:4], [1.2, 2.5] * 4])),
        ("differs", result(MANY, drawn=True), None, result([*MANY[:4], [1.2, 25.0] * 4])),
        ("differs", result(MANY, drawn=True), None, result(["tensor", "float16", *MANY[2:]])),
    ],
)
def test_a_call_is_judged_by_what_it_came_to(parts: Any, status: str, stock: Any, gpu: Any, told: Any) -> None:
    rows = {"torch.some": {"cuda": gpu, "cpu": stock}} if gpu else {}
    assert parts("judging").status("torch.some", "virtual", stock, told, {"rows": rows})["status"] == status


def test_what_was_never_written_has_no_numbers(parts: Any) -> None:
    status = parts("judging").status
    other = result([*THERE[:4], [7.0, 1e20]])
    assert status("torch.empty_like", "virtual", result(TENSOR), other, {"rows": {}})["status"] == "works"
    assert status("torch.ones_like", "virtual", result(TENSOR), other, {"rows": {}})["status"] == "differs"


def test_another_gpu_may_do_as_the_cpu_does(parts: Any) -> None:
    rows = {"torch.some": {"cuda": REFUSAL, "cpu": result(TENSOR)}}
    judged = parts("judging").status("torch.some", "mps", result(TENSOR), result(THERE), {"rows": rows})
    assert judged["status"] == "works"


def test_an_answer_of_another_release_is_not_held_against_a_driver(parts: Any) -> None:
    """Where stock's own result has changed since the GPU was asked, stock's of today is compared with."""
    then = result(["tensor", "float32", [3], "cpu", [1.0, 2.0, 3.0]])
    rows = {"torch.some": {"cuda": result(["tensor", "float32", [3], "cuda", [1.0, 2.0, 3.0]]), "cpu": then}}
    judged = parts("judging").status("torch.some", "virtual", result(TENSOR), result(THERE), {"rows": rows})
    assert (judged["status"], judged["with"]) == ("works", "stock on the CPU")


def test_what_worked_and_does_not_fails_the_comparison(parts: Any, tmp_path: Path) -> None:
    recording: ModuleType = parts("recording")
    old, new = tmp_path / "old.json.xz", tmp_path / "new.json.xz"
    for file, status in ((old, "works"), (new, "differs")):
        recording.write({"callables": {"torch.some": {"drivers": {"virtual": {"status": status, "why": "so"}}}}}, file)
    done = tool("diff", old, new)
    assert done.returncode == 1
    assert done.stdout == "virtual: torch.some: works, now differs: so\n"
    assert tool("diff", new, old).returncode == 0


NAMES = {
    "torch.add": "function", "torch.Tensor.add_": "method", "torch.nn.Linear": "class", "torch.optim.SGD": "class",
    "torch.nn.Linear.reset_parameters": "method", "torch.Tensor.eig": "method", "torch.randn": "function",
    "torch.nn.LSTM.forward": "method", "torch.quantize_per_tensor": "function",
    "torch.multiprocessing.Event": "function",
}  # fmt: skip


def namespace(name: str) -> str:
    known = ("torch.Tensor", "torch.nn", "torch.optim", "torch.multiprocessing")
    return next((each for each in known if name.startswith(f"{each}.")), "torch")


@pytest.mark.slow
def test_calls_are_found_and_made_again(tmp_path: Path) -> None:
    """Arguments that stock takes are found from types and samples; the same calls come to the same on a driver."""
    asked, out = tmp_path / "names.json", tmp_path / "out"
    found: dict[str, dict[str, Any]] = {}
    for launcher, device in (((), "cpu"), (("-m", "torchdevice_cuda", "--driver", "cpu"), "cuda")):
        rows = [
            {
                "entry": {"name": name, "namespace": namespace(name), "kind": kind},
                "call": found.get(name, {}).get("call"),
            }
            for name, kind in NAMES.items()
        ]
        asked.write_text(json.dumps(rows))
        out.write_text("")
        command = [sys.executable, *launcher, str(TOOL / "__main__.py"), "work", str(asked), str(out), device]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=600)
        told = [json.loads(line) for line in out.read_text().splitlines()]
        now = {row["name"]: row for row in told if "name" in row}
        assert now.keys() == NAMES.keys()
        if found:
            sys.path.insert(0, str(TOOL))
            same = importlib.import_module("comparing").same
            sys.path.remove(str(TOOL))
            assert [name for name in NAMES if not same(found[name], now[name])] == []
        found = now
    assert "is now removed" in found["torch.Tensor.eig"]["error"]
    assert found["torch.randn"]["drawn"] and not found["torch.add"]["drawn"]
    assert found["torch.add"]["result"][0] == "tensor"
