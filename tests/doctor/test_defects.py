"""On the emulated Apple GPU every check passes, and a defect of the past that is put back is named."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import run_forked
from harness.places import unbuilt

from torchdevice_cuda import settings
from torchdevice_cuda.doctor import examination, running
from torchdevice_cuda.doctor.results import FAILED, NOTED, OK, SKIPPED, Answer, Result
from torchdevice_cuda.doctor.table import CHECKS

pytestmark = [pytest.mark.native, pytest.mark.mps]
EMULATED = {"TORCHDEVICE_EMULATE_MPS": "1", "OMP_NUM_THREADS": "1"}
DRIVER = {"driver": "mps"}
DEFECTS = Path(__file__).with_name("defects")
EXAMINED = ("events", "refusals", "memory", "mixed", "numbers", "lending")
#: Shorter than the checks' own: one of the defects hangs.
LIMIT_S = 6.0

#: The check and the question that names a defect, and in which words.
NAMED = {
    "a Metal event is asked twice": ("events", "a time asked for twice", "no answer within 6 s, at File "),
    "a row of the refusals is missing": (
        "refusals",
        "^linalg.solve.triangular(); Only float is supported",
        "the GPU refuses in words that the table does not know: RuntimeError: linalg.solve.triangular(); Only float",
    ),
    "complex128 is let through": ("numbers", "complex128, empty_strided", "torch.complex128 got onto the GPU"),
    "copies go anywhere": ("numbers", "copies to odd addresses", "Unaligned blit request"),
    "nobody compares devices": ("mixed", "solve_triangular", "would crash the process on a Mac"),
    "gradients of svd are lost": ("numbers", "linalg, svd", "gradients are lost"),
    "the host's work is not brought back": ("lending", "tensors of one storage", "what the host wrote is not there"),
    "memory runs out in Metal's words": ("memory", "out of memory", "RuntimeError: "),
}


def _examined(folder: Path, limit: float | None = None) -> dict[str, Result]:
    """Run the checks as ``--doctor`` does and return their results."""
    reason = unbuilt("mps")
    assert not reason, reason
    chosen = settings.load(DRIVER)
    found: dict[str, Result] = {}

    def begin(check: examination.Check) -> running.Process:
        place = folder / check.name
        place.mkdir()
        environment = examination.environment(check, chosen, DRIVER, place)
        process = running.Process(check, environment, place, limit)
        found[check.name] = process.result
        return process

    for _ in running.run([functools.partial(begin, check) for check in CHECKS if check.name in EXAMINED], 2):
        pass
    return found


@pytest.fixture(scope="module")
def environment() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in EMULATED.items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory, environment: pytest.MonkeyPatch) -> dict[str, Result]:
    return _examined(tmp_path_factory.mktemp("well"))


@pytest.fixture(scope="module")
def ill(tmp_path_factory: pytest.TempPathFactory, environment: pytest.MonkeyPatch) -> dict[str, Result]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(DEFECTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
        return _examined(tmp_path_factory.mktemp("ill"), LIMIT_S)


def _answer(result: Result, question: str) -> Answer:
    return next(answer for answer in result.answers if answer.question == question)


@pytest.mark.slow  # as the whole of it is
@pytest.mark.parametrize("check", EXAMINED)
def test_all_is_well(well: dict[str, Result], check: str) -> None:
    result = well[check]
    assert result.verdict == OK, (result.found, result.output)


@pytest.mark.parametrize("defect", NAMED)
def test_a_defect_is_named(ill: dict[str, Result], defect: str) -> None:
    check, question, words = NAMED[defect]
    answer = _answer(ill[check], question)
    assert answer.verdict == FAILED
    assert words in answer.found


def test_a_hang_is_shown_with_its_stack(ill: dict[str, Result]) -> None:
    assert "in since" in ill["events"].stack
    assert _answer(ill["events"], "an idle queue says so").verdict in (OK, SKIPPED)
    assert _answer(ill["events"], "a time").verdict == OK


#: What there is nothing to ask of.
NOT_OF = {
    "mps": set(),
    "virtual": {"refusals", "lending", "mlx", "speed"},
    "cpu": {"refusals", "lending", "mlx", "speed", "training, accelerate", "mixed", "identity"},
}


@pytest.mark.slow
@pytest.mark.parametrize("driver", NOT_OF)
def test_the_whole_of_it(tmp_path: Path, driver: str) -> None:
    command = ("-m", "torchdevice_cuda", "--doctor", "--driver", driver)
    done = run_forked(*command, folder=tmp_path, environment=EMULATED, timeout=900)
    (file,) = tmp_path.iterdir()
    document = json.loads(file.read_text())
    found = {check["name"]: check["verdict"] for check in document["checks"]}
    assert found.pop("installation") in (OK, NOTED)  # it is about this machine
    expected = {name: SKIPPED if name in NOT_OF[driver] else OK for name in found}
    assert found == expected and len(found) == len(CHECKS) - 1
    assert document["verdict"] == OK
    assert f" 0 failed, {len(NOT_OF[driver])} skipped" in done.out
