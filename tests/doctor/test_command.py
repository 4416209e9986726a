"""``--doctor``: its words, its table, the file that it leaves, how it ends; as quick as checks of the CPU are."""

from __future__ import annotations

import getpass
import importlib.util
import io
import json
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from launch.running import OURS, ROOT, environment, python

from torchdevice_cuda.doctor import document, examination
from torchdevice_cuda.doctor.probes import PROBES
from torchdevice_cuda.doctor.results import FAILED, NOTED, OK, SKIPPED, Answer, Result
from torchdevice_cuda.doctor.samples import COLUMNS
from torchdevice_cuda.doctor.table import CHECKS, START
from torchdevice_cuda.fallback.refusals import TABLE

DOCTOR = (*OURS, "--doctor", "--driver", "cpu")


# ------------------------------------------------------------------------------------------------------ its words
@pytest.mark.parametrize("word", ["evens", "script.py", "-m", "-", "--"])
def test_a_word_that_it_does_not_know(tmp_path: Path, word: str) -> None:
    ended = python(*DOCTOR, "events", word, "x", folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert re.fullmatch(
        rf"torchdevice-cuda: --doctor knows no '{re.escape(word)}'; [^\n]*events, refusals[^\n]*\n", ended.err
    )
    assert not list(tmp_path.iterdir())


def test_an_option_that_there_is_not(tmp_path: Path) -> None:
    ended = python(*DOCTOR, "--no-such", folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "there is no option --no-such" in ended.err


def test_it_writes_over_nothing(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    file.write_text("mine")
    ended = python(*DOCTOR, "found.json", folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert (
        ended.err
        == "torchdevice-cuda: found.json is there already, and --doctor writes over nothing; name another file\n"
    )
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["events"], ["start", "events"]),
        (["training"], ["start", "training, accelerate", "training, faithful"]),
        (["training, faithful", "x.json"], ["start", "training, faithful"]),
        ([], [check.name for check in CHECKS]),
    ],
)
def test_checks_by_name(words: list[str], names: list[str]) -> None:
    checks, file = examination.request(words)
    assert [check.name for check in checks] == names
    assert file == ("x.json" if "x.json" in words else None)


# ------------------------------------------------------------------------------------------------------ the tables
def test_every_check_is_a_program() -> None:
    assert [check.name for check in CHECKS if importlib.util.find_spec(check.program) is None] == []
    assert CHECKS[0] is START
    assert all(check.otherwise for check in CHECKS if check.traits or check.without)


def test_every_refusal_is_asked() -> None:
    assert set(PROBES) == {row.words.pattern for row in TABLE}


# ------------------------------------------------------------------------------------------------------- a whole run
def test_a_run(tmp_path: Path) -> None:
    home = tmp_path / "jane"
    (home / "work").mkdir(parents=True)
    env = environment(HOME=str(home), TORCHDEVICE_NAME="Test GPU", TORCHDEVICE_REPORT="left.txt", OMP_NUM_THREADS="1")
    ended = python(*DOCTOR, "mixed", "found.json", "--devices", "2", folder=home / "work", env=env)
    assert ended.status == 0
    assert re.fullmatch(r"torchdevice_cuda: 2 checks, usually \d+ s; Ctrl-C ends them and [^\n]+\n", ended.err)
    (file,) = (home / "work").iterdir()
    assert file.name == "found.json"
    head, start, mixed, *_ = ended.out.splitlines()
    assert head.split() == ["check", "verdict", "seconds", "found"]
    assert start.split()[:2] == ["start", "ok"]
    assert mixed.split()[:2] == ["mixed", "skipped"]
    assert ended.out.endswith(
        "1 ok, 0 noted, 0 failed, 1 skipped. For an issue, with versions and figures and without names: found.json\n"
    )
    text = file.read_text()
    found = json.loads(text)
    assert (found["verdict"], found["settings"]["driver"], found["settings"]["devices"]) == ("ok", "cpu", "2")
    assert found["set by"] == {"name": "TORCHDEVICE_NAME", "report": "TORCHDEVICE_REPORT", "driver": "the command line",
                               "devices": "the command line"}  # fmt: skip
    assert {"torch", "mlx", "pyobjc-framework-Metal", "Python"} <= set(found["versions"])
    assert {"macOS", "processor", "memory"} <= set(found["machine"])
    figures = found["checks"][0]["answers"][0]["figures"]
    assert figures["driver"] == "cpu"
    assert [device["name"] for device in figures["devices"]] == ["Test GPU"] * 2
    assert "jane" not in text
    assert str(home) not in text


def test_a_driver_that_cannot_work(tmp_path: Path, no_gpu: None) -> None:
    """The installation is checked all the same, in the user's own environment, which may hold the reason."""
    env = environment(CUDA_VISIBLE_DEVICES="-1")
    ended = python(*OURS, "--doctor", "--driver", "cuda", "x.json", folder=tmp_path, env=env)
    assert ended.status == 1
    found = {check["name"]: check for check in json.loads((tmp_path / "x.json").read_text())["checks"]}
    assert "driver 'cuda' was asked for, but " in found["start"]["found"]
    others = {name: check["verdict"] for name, check in found.items() if name not in ("start", "installation")}
    assert set(others.values()) == {SKIPPED}
    assert found["installation"]["verdict"] == NOTED
    answers = {answer["question"]: answer for answer in found["installation"]["answers"]}
    assert answers["variables"]["found"] == "CUDA_VISIBLE_DEVICES hides every GPU from programs"
    assert answers["torch build"]["verdict"] == OK
    steps = [line for line in ended.out.splitlines() if re.match(r" ?\d+\. ", line)]
    assert answers["variables"]["advice"] in " ".join(steps)
    assert "driver 'cuda' was asked for, but " in ended.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, *DOCTOR, "events", "x.json"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        deadline, children = time.monotonic() + 60, []
        while not children and time.monotonic() < deadline:
            children = psutil.Process(process.pid).children()
            time.sleep(0.02)
        process.send_signal(number)
        begun = time.monotonic()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert time.monotonic() - begun < 20
    assert "interrupted after" in out
    assert json.loads((tmp_path / "x.json").read_text())["verdict"] == "interrupted"
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


def test_advice_is_ordered_by_benefit() -> None:
    answers = [
        Answer("numpy", NOTED, advice="pip install numpy"),
        Answer("variables", NOTED, advice="unset CUDA_VISIBLE_DEVICES"),
        Answer("sort", FAILED),
        Answer("compiled part", NOTED, advice="python -m torchdevice_cuda --build"),
        Answer("torch build", FAILED, advice="pip install torch"),
        Answer("cache", OK),
    ]
    result = Result("installation", "why", answers=answers)
    found = [answer.question for _, answer in examination.advice([result])]
    assert found == ["torch build", "sort", "variables", "compiled part", "numpy"]
    lines = examination.table([result]).splitlines()
    assert lines[-10].startswith(" 1. pip install torch") and " 2. python -m torchdevice_cuda --doctor" in lines[-8]


def test_nothing_is_written_unless_asked(tmp_path: Path) -> None:
    ended = python(*DOCTOR, "mixed", folder=tmp_path)
    assert ended.status == 0 and not list(tmp_path.iterdir())
    assert "For an issue: name a file (--doctor report.json)" in ended.out


# ------------------------------------------------------------------------------------------------------ the file
def test_no_user_name_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/jane.roe")
    monkeypatch.setattr(getpass, "getuser", lambda: "jane.roe")
    monkeypatch.setattr(platform, "node", lambda: "janes-mac.local")
    given: Any = {
        "/srv/people/jane.roe/x": ["/srv/people/jane.roe", ("at /Users/john/venv/lib", 3, None)],
        "texts": 'File "/home/someone/a.py" of jane.roe on janes-mac: JANES-MAC.local? janes-mac.local!',
        "not names": ["/opt/srv/people/jane.roe2", "jane.roes", "/Users/Shared/x", "/opt/home/x", 1.5, float("nan")],
    }
    assert document.anonymous(given) == {
        "~/x": ["~", ["at ~/venv/lib", 3, None]],
        "texts": 'File "~/a.py" of <user> on <host>: JANES-MAC.local? <host>!',
        "not names": ["/opt/srv/people/jane.roe2", "jane.roes", "/Users/Shared/x", "/opt/home/x", 1.5, "nan"],
    }


def test_figures_for_thresholds_are_read_from_it(tmp_path: Path) -> None:
    rows = [
        ["sort", "float32", 11, 4e-5, 1e-5, 2e-5],
        ["sort", "float32", 15, 8e-5, 1e-5, None],
        ["mm", "float32", 11, 1e-5, None, 1],
    ]
    speed = {
        "name": "speed",
        "answers": [
            {"figures": figures}
            for figures in (
                {},
                {"seconds": 1, "other": 2},
                *({COLUMNS: row} for row in rows),
                {"machine": "mlx 1.0 on gpu, torch 2"},
            )
        ],
    }
    file = tmp_path / "found.json"
    file.write_text(json.dumps({"checks": [{"name": "start", "answers": []}, speed]}))
    ended = python(str(ROOT / "tools/bench/mlx.py"), "--found", str(file), "--only", "mm,sort", folder=tmp_path)
    assert ended.err == ""
    machine, product, sort = ended.out.splitlines()
    assert machine == "mlx 1.0 on gpu, torch 2"
    assert product.split()[:3] == ["mm", "not", "measured"]
    assert sort.split() == ["sort", "from", "1024", "CPU/MLX", "1024:", "4.00", "16384:", "8.00"]


# ---------------------------------------------------------------------------------------------------- what is shown
class Terminal(io.StringIO):
    """Standard error that is a terminal, or is not."""

    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


@pytest.mark.parametrize("is_one", [True, False])
def test_progress(monkeypatch: pytest.MonkeyPatch, is_one: bool) -> None:
    terminal = Terminal(is_one)
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = examination.Progress(4)
    progress.show(2, ["events", "memory"])
    progress.clear()
    shown = terminal.getvalue()
    assert ("2/4 events, memory" in shown) is is_one
    assert shown.endswith("\r\033[K") is is_one
    assert bool(shown) is is_one


def test_faults_are_below_the_table() -> None:
    ill = Result("events", "times", answers=[Answer("a time", OK), Answer("twice", FAILED, 1, "hangs")])
    ill.conclude(2.5)
    well = Result("memory", "figures", answers=[Answer("peaks", OK, 1, "of all kinds"), Answer("x", SKIPPED)])
    well.conclude(1)
    lines = examination.table([ill, well]).splitlines()
    assert lines[1].split() == ["events", "failed", "2.5", "twice:", "hangs"]
    assert lines[2].split() == ["memory", "ok", "1.0", "1", "right;", "of", "all", "kinds"]
    told = ["", "What to do, what helps most first:", f" 1. {examination._ADVICE}", "    failed: events, twice: hangs"]
    assert lines[3:] == told


def test_a_note_fails_nothing_and_has_advice() -> None:
    noted = Result(
        "installation", "all", answers=[Answer("x", OK), Answer("disk", NOTED, 1, "full", advice="make room")]
    )
    noted.conclude(1)
    assert (noted.verdict, noted.found) == (NOTED, "disk: full")
    assert examination.table([noted]).splitlines()[-2:] == [" 1. make room", "    noted: installation, disk: full"]
