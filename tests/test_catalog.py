"""The catalog of PyTorch's callables: what is compared, how it is judged, and that the page is what the record says."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded import store

ROOT = Path(__file__).parents[1]
TOOL, CATALOG, PAGE = ROOT / "tools/catalog", ROOT / "tests/data/catalog.json.xz", ROOT / "docs/coverage.md"


@pytest.fixture(scope="module")
def parts() -> Any:
    """Return the tool's own modules, by name."""
    sys.path.insert(0, str(TOOL))
    yield lambda name: importlib.import_module(name)
    sys.path.remove(str(TOOL))


def started(code: str) -> Any:
    """Make a place where a child runs this code."""
    return SimpleNamespace(launcher=["-c", code], device="cpu", make_environment=lambda: dict(os.environ))


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/record"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_the_page_is_what_the_tool_writes_from_the_record(tmp_path: Path) -> None:
    done = tool("page", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.md").read_text() == PAGE.read_text()


def test_every_status_has_what_it_was_measured_against(parts: Any) -> None:
    """A status is no more than its evidence: what works was compared, what was not run says why."""
    judging, catalog = parts("judging"), store.read_file(CATALOG)
    assert len(catalog["answers"]) > 4000
    for name, row in catalog["answers"].items():
        assert set(row["drivers"]) == set(catalog["about"]["drivers"]), name
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
        # Where tails are heavy, one of a few is far from the others.
        ("works", result(MANY, drawn=True), None, result([*MANY[:4], [1.2, 2.5] * 3 + [1.0, 110.0]])),
        ("differs", result(MANY, drawn=True), None, result(["tensor", "float16", *MANY[2:]])),
    ],
)
def test_a_call_is_judged_by_what_it_came_to(parts: Any, status: str, stock: Any, gpu: Any, told: Any) -> None:
    rows = {"torch.some": {"cuda": gpu, "cpu": stock}} if gpu else {}
    assert parts("judging").status("torch.some", "virtual", stock, told, {"answers": rows})["status"] == status


def test_uninitialized_memory_is_not_compared(parts: Any) -> None:
    status = parts("judging").status
    other = result([*THERE[:4], [7.0, 1e20]])
    assert status("torch.empty_like", "virtual", result(TENSOR), other, {"answers": {}})["status"] == "works"
    assert status("torch.ones_like", "virtual", result(TENSOR), other, {"answers": {}})["status"] == "differs"


def test_another_gpu_may_do_as_the_cpu_does(parts: Any) -> None:
    rows = {"torch.some": {"cuda": REFUSAL, "cpu": result(TENSOR)}}
    judged = parts("judging").status("torch.some", "mps", result(TENSOR), result(THERE), {"answers": rows})
    assert judged["status"] == "works"


def test_an_answer_of_another_release_is_not_held_against_a_driver(parts: Any) -> None:
    """If stock's own result has changed since the GPU's record, the driver is compared with today's stock."""
    then = result(["tensor", "float32", [3], "cpu", [1.0, 2.0, 3.0]])
    rows = {"torch.some": {"cuda": result(["tensor", "float32", [3], "cuda", [1.0, 2.0, 3.0]]), "cpu": then}}
    judged = parts("judging").status("torch.some", "virtual", result(TENSOR), result(THERE), {"answers": rows})
    assert (judged["status"], judged["with"]) == ("works", "stock on the CPU")


def test_a_call_that_stops_working_fails_the_comparison(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json.xz", tmp_path / "new.json.xz"
    for file, status in ((old, "works"), (new, "differs")):
        store.write_file(file, {}, {"torch.some": {"drivers": {"virtual": {"status": status, "why": "so"}}}})
    comparing = ("compare", "catalog", "--driver", "virtual")
    done = tool(*comparing, "--answers", new, "--with", old)
    assert done.returncode == 1
    assert done.stdout == "virtual: torch.some: works, now differs: so\n"
    assert tool(*comparing, "--answers", old, "--with", new).returncode == 0


def test_an_attribute_that_is_called_tensor_is_none(parts: Any) -> None:
    """Objects are told by their attributes: a name and a summary, which may look like a tensor's."""
    held = [result(["object", "P2POp", ["tensor", [*TENSOR[:4], [1.0, last]]]]) for last in (2.0, 2.0, 3.0)]
    assert parts("comparing").same(held[0], held[1])
    assert not parts("comparing").same(held[0], held[2])


def test_processes_that_do_not_begin_are_heard(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that cannot start has no callables that failed: the run fails, with what it said."""
    measuring = parts("measuring")
    monkeypatch.setitem(measuring.DRIVERS, "stock", started("raise SystemExit('no device here')"))
    with pytest.raises(measuring.Silent, match=r"stock: .* \(1\): no device here"):
        measuring.run("stock", [{"entry": {"name": "torch.add"}, "call": None}])


#: Children in the tool's stead: one begins a call and does not come back, one is at work, one begins late.
CHILD = "import sys, time\ndef say(line):\n    with open(sys.argv[3], 'a') as out: out.write(line + chr(10))\n"
BEGIN = repr(json.dumps({"begin": "torch.add", "key": "0:"}))
DONE = repr(json.dumps({"name": "torch.add", "call": "0:", "result": 1, "drawn": False}))
HANGS = f"{CHILD}say({BEGIN})\ntime.sleep(30)"
WORKS = f"{CHILD}for _ in range(150):\n    say({BEGIN})\n    time.sleep(0.2)"
SPINS = f"{CHILD}say({BEGIN})\nwhile True: pass"
BUILDS = f"{CHILD}time.sleep(3)\nsay({DONE})"


@pytest.mark.parametrize(
    ("child", "seconds", "told"),
    [
        (HANGS, 60, {"torch.add": {"call": "0:", "error": "Crash: its process ended, or hung"}}),
        (SPINS, 60, {"torch.add": {"call": "0:", "error": "Crash: its process ended, or hung"}}),
        # Its time is up: that says nothing of the callable.
        (WORKS, 1, {}),
        # Before its first call a process may be waiting for what another one builds.
        (BUILDS, 60, {"torch.add": {"call": "0:", "result": 1, "drawn": False}}),
    ],
    ids=["hangs", "never ends", "is cut off", "waits"],
)
def test_hangs_cut_off_calls_and_waits_are_distinguished(
    parts: Any, monkeypatch: pytest.MonkeyPatch, child: str, seconds: float, told: dict[str, Any]
) -> None:
    measuring = parts("measuring")
    monkeypatch.setitem(measuring.DRIVERS, "stock", started(child))
    monkeypatch.setattr(measuring, "begins", lambda driver: None)
    monkeypatch.setattr(measuring, "PATIENCE", 1)
    monkeypatch.setattr(measuring, "EACH", 1)
    monkeypatch.setattr(measuring, "ENDS", [time.monotonic() + seconds])
    assert measuring.run("stock", [{"entry": {"name": "torch.add"}, "call": "0:"}]) == told


def test_calls_that_change_their_process_come_last(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later calls in the same process would come to something else."""
    measuring, called = parts("measuring"), []
    names = [
        "torch.serialization.register_package",
        "torch.add",
        "torch.autograd.forward_ad.enter_dual_level",
        "torch.mul",
    ]
    monkeypatch.setattr(measuring, "begins", lambda driver: None)
    monkeypatch.setattr(
        measuring, "_chunk", lambda driver, chunk: called.extend(row["entry"]["name"] for row in chunk) or {}
    )
    measuring.run("stock", [{"entry": {"name": name}} for name in names], jobs=9)
    assert called == ["torch.add", "torch.mul", names[0], names[2]]


def test_failures_of_stock_do_not_count_against_the_gpu(parts: Any) -> None:
    there = {"torch": "2", **result(THERE)}
    spoilt = {"call": there["call"], "error": "RuntimeError: DispatchStub: unsupported device typemeta"}
    judged = parts("judging").status(
        "torch.some", "virtual", spoilt, dict(there), {"answers": {"torch.some": {"cuda": there, "cpu": "same"}}}
    )
    assert (judged["status"], judged["with"]) == ("works", "the GPU")


def test_calls_that_crashed_on_the_gpu_are_sought_anew(parts: Any) -> None:
    rows = {"torch.some": {"cuda": result(THERE)}, "torch.other": {"cuda": {"call": "0:", "error": "Crash: it hung"}}}
    assert parts("recording").calls_of({"answers": rows}) == {"torch.some": "0:"}


def test_leftovers_of_other_calls_are_no_answer(parts: Any) -> None:
    judging, comparing = parts("judging"), parts("comparing")
    spoilt = {"call": "0:", "error": "RuntimeError: Offset increment outside graph capture encountered unexpectedly."}
    gpu = {"answers": {"torch.some": {"cuda": spoilt, "cpu": result(TENSOR)}}}
    judged = judging.status("torch.some", "virtual", result(TENSOR), result(THERE), gpu)
    assert judged["status"] == judging.WORKS and judged["with"] == judging.STOCK
    assert parts("recording").calls_of(gpu) == {}
    tied = ["object", "function", ["run_function", THERE]]
    assert comparing.close(tied, ["object", "function"]) and not comparing.close(tied, ["object", "type"])
    assert comparing.close("x # /a/values.py:134:15", "x # /a/values.py:136:15")
    assert not comparing.close("x # /a/values.py:134:15", "y # /a/values.py:134:15")


@pytest.mark.slow
def test_a_call_that_is_no_longer_there_is_sought_anew(parts: Any) -> None:
    entry = parts("listing").Callable_("torch.random.initial_seed", "torch.random", "function")
    tried: list[str] = []
    told = parts("measuring").attempt(entry, "cpu", "special 7", [], tried.append)
    assert tried and told["call"] == tried[-1]


#: Calls of the tables that stock torch does not take on a machine without a GPU: they are of GPUs, or of no device.
OF_GPUS = re.compile(
    r"^torch\.cuda\.|ProcessGroupNCCL|FullyShardedDataParallel|^torch\.TypedStorage\.pin_memory|DataParallel\.parallel"
    r"|cudnn|miopen|^torch\.batch_norm_|PackedSequence\.(cuda|pin)|^torch\.Tensor\.record_stream|^torch\.Event\."
    r"|semi_structured|wrap_triton|^torch\.nn\.SyncBatchNorm\.forward|^torch\.indices_copy"
    # FBGEMM's kernels need AVX2.
    + (r"|^torch\.(fbgemm_|quantized_\w+_cell)" if platform.machine() in ("aarch64", "arm64") else "")
)


@pytest.mark.slow
def test_the_tables_calls_are_calls_that_stock_takes(parts: Any, tmp_path: Path) -> None:
    """Every one of a callable that this torch has, in one process, twice to the same result."""
    listing, specials = parts("listing"), parts("specials")
    entries = [entry for entry in listing.listed() if entry.name in specials.SPECIAL]
    assert len(entries) > 450
    assert {entry.namespace for entry in entries} >= {"torch.ao.nn.quantized", "torch.distributed", "torch.fx"}
    rows = parts("measuring").rows_for(entries, dict.fromkeys(specials.SPECIAL, "special 0"))
    told = parts("measuring").run("stock", rows, 1)
    failed = {name: row.get("error", row.get("none")) for name, row in told.items() if "result" not in row}
    assert {name: error for name, error in failed.items() if not OF_GPUS.search(name)} == {}
    assert told.keys() == {row["entry"]["name"] for row in rows}


NAMES = {
    "torch.add": "function", "torch.Tensor.add_": "method", "torch.nn.Linear": "class", "torch.optim.SGD": "class",
    "torch.nn.Linear.reset_parameters": "method", "torch.Tensor.eig": "method", "torch.randn": "function",
    "torch.nn.LSTM.forward": "method", "torch.quantize_per_tensor": "function",
    "torch.multiprocessing.Event": "function", "torch.Node.fs": "method", "torch.fx.Interpreter.run_node": "method",
    "torch.ao.nn.quantized.ReLU6.forward": "method", "torch.distributed.Store.get": "method",
    "torch.distributions.Wishart.log_prob": "method", "torch.set_autocast_dtype": "function",
}  # fmt: skip


def namespace(name: str) -> str:
    known = ("torch.Tensor", "torch.nn", "torch.optim", "torch.multiprocessing", "torch.fx", "torch.distributions",
        "torch.distributed", "torch.ao.nn.quantized")  # fmt: skip
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
        command = [sys.executable, *launcher, str(TOOL / "work.py"), str(asked), str(out), device]
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
