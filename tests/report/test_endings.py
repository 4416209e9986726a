"""When the report is written: at every end that Python has a say in. ``endings/`` and ``children/`` are programs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from harness import Finished, python

from .reading import counts, reports, rows

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
#: By program: how many processes of it have something to say besides the first.
CHILDREN = {
    "forks": 1,
    "forks_one_that_quits": 0,
    "forks_an_idle_one": 0,
    "multiprocessing_fork": 1,
    "multiprocessing_spawn": 1,
    "multiprocessing_forkserver": 1,
    "multiprocessing_terminated": 1,
    "subprocess_of_its_own": 1,
}


def run(program: Path, folder: Path, driver: str = "cpu") -> Finished:
    options = ("--driver", driver, "--report", str(folder / "report.txt"))
    return python("-m", "torchdevice_cuda", *options, program, check=False, timeout=60)


def test_every_program_is_listed() -> None:
    assert {path.stem for path in (FOLDER / "endings").glob("*.py")} == set(ENDINGS)
    assert {path.stem for path in (FOLDER / "children").glob("*.py")} == {*CHILDREN, "workers_that_load"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_that(ending: str, tmp_path: Path) -> None:
    status, written = ENDINGS[ending]
    done = run(FOLDER / "endings" / f"{ending}.py", tmp_path)
    assert done.status == status, done
    assert reports(tmp_path) == (["report.txt"] if written else [])
    if written:
        ((count, asked, given, _),) = rows((tmp_path / "report.txt").read_text())
        assert (int(count) > 0, asked, given) == (True, "cuda", "cpu")


@pytest.mark.native
def test_a_program_on_the_virtual_gpu_that_is_terminated(tmp_path: Path) -> None:
    done = run(FOLDER / "endings" / "is_terminated.py", tmp_path, "virtual")
    assert done.status == -signal.SIGTERM, done
    assert list(counts((tmp_path / "report.txt").read_text()).values()) == [1]


@pytest.mark.parametrize("children", CHILDREN)
def test_each_process_writes_its_own(children: str, tmp_path: Path) -> None:
    done = run(FOLDER / "children" / f"{children}.py", tmp_path)
    assert done.status == 0, done
    files = reports(tmp_path)
    assert len(files) == 1 + CHILDREN[children]
    for file in files:
        assert [row[:3] for row in rows((tmp_path / file).read_text())] == [["1", "cpu", "cpu"]], file


def test_workers_that_only_load_data_have_nothing_to_say(tmp_path: Path) -> None:
    assert run(FOLDER / "children" / "workers_that_load.py", tmp_path).status == 0
    assert reports(tmp_path) == ["report.txt"]
