"""A report is written at every exit that Python notices. ``endings/`` and ``children/`` are programs."""

from __future__ import annotations

import functools
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from harness import Finished, python, run_forked

from .reading import read, reports

FOLDER = Path(__file__).parent
#: By program: the exit status that plain python gives it too, and whether there is a report.
ENDINGS = {
    "returns": (0, True),
    "exits": (3, True),
    "fails": (1, True),
    "is_interrupted": (-signal.SIGINT, True),
    "is_terminated": (-signal.SIGTERM, True),
    "is_terminated_among_threads": (-signal.SIGTERM, True),
    "is_terminated_while_it_counts": (-signal.SIGTERM, True),
    "has_a_handler": (5, True),
    "gets_a_handler_later": (5, True),
    "ignores_it": (0, True),
    "imports_in_a_thread": (0, True),
    "wants_the_default": (-signal.SIGTERM, False),
    "quits": (4, False),
    "is_killed": (-signal.SIGKILL, False),
    "aborts": (-signal.SIGABRT, False),
}
#: By program: how many lines of its processes were counted in all, and what is said of each process besides the first.
CHILDREN: dict[str, tuple[int, list[str]]] = {
    "forks": (2, ["ended"]),
    "forks_one_that_quits": (1, ["lost"]),
    "forks_an_idle_one": (1, []),
    "multiprocessing_fork": (2, ["ended"]),
    "multiprocessing_spawn": (2, ["ended"]),
    "multiprocessing_forkserver": (2, ["ended"]),
    "multiprocessing_terminated": (2, ["ended"]),
    "multiprocessing_killed": (1, ["lost"]),
    "multiprocessing_left_to_the_end": (2, ["ended"]),
    "has_a_report_of_its_own": (1, []),
    "outlives_its_parent": (1, ["running"]),
    "subprocess_of_its_own": (2, ["ended"]),
    "workers_that_load": (3, []),  # DataLoader asks for two, and its workers have nothing to say
}
#: Which of them end as others here do, in a way that takes longer.
RARE = {"multiprocessing_forkserver", "multiprocessing_left_to_the_end", "multiprocessing_terminated"}
#: Which of them are new processes: those that end as most do, and those that are about importing torch.
NEW = {"returns", "is_terminated", "imports_in_a_thread"}


def run(program: Path, folder: Path, driver: str = "cpu") -> Finished:
    options = ("--driver", driver, "--report", str(folder / "report.json"))
    start = python if program.stem in NEW else functools.partial(run_forked, whole=True)
    return start("-m", "torchdevice_cuda", *options, program, check=False, timeout=60)


def test_every_program_is_listed() -> None:
    assert {path.stem for path in (FOLDER / "endings").glob("*.py")} == set(ENDINGS)
    assert {path.stem for path in (FOLDER / "children").glob("*.py")} == set(CHILDREN)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_that(ending: str, tmp_path: Path) -> None:
    status, written = ENDINGS[ending]
    done = run(FOLDER / "endings" / f"{ending}.py", tmp_path)
    assert done.status == status, done
    assert reports(tmp_path) == (["report.json"] if written else [])
    if written:
        (row,) = read(tmp_path / "report.json").requests
        assert (row.count > 0, row.asked, row.given) == (True, "cuda", "cpu")


@pytest.mark.native
def test_a_program_on_the_virtual_gpu_that_is_terminated(tmp_path: Path) -> None:
    done = run(FOLDER / "endings" / "is_terminated.py", tmp_path, "virtual")
    assert done.status == -signal.SIGTERM, done
    document = read(tmp_path / "report.json")
    assert [row.count for row in document.requests] == [1]
    assert [row.name for row in document.work] == ["aten::zero_"]


@pytest.mark.parametrize(
    "children", [pytest.param(name, marks=[pytest.mark.slow] if name in RARE else []) for name in CHILDREN]
)
def test_processes_have_one_report(children: str, tmp_path: Path) -> None:
    count, states = CHILDREN[children]
    done = run(FOLDER / "children" / f"{children}.py", tmp_path)
    assert done.status == 0, done
    document = read(tmp_path / "report.json")
    assert [process.state for process in document.processes[1:]] == states
    assert {(row.asked, row.given) for row in document.requests} == {("cpu", "cpu")}
    assert sum(row.count for row in document.requests) == count
    assert not list(Path(tempfile.gettempdir()).glob(f"torchdevice-report-{document.processes[0].pid}-*"))
    if children == "outlives_its_parent":  # and has a report of its own then
        pid = document.processes[1].pid
        while psutil.pid_exists(pid):
            time.sleep(0.05)
        assert reports(tmp_path) == [f"report.{pid}.json", "report.json"]
    else:
        assert reports(tmp_path) == ["report.json"]
