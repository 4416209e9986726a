"""Conventions of PyTorch's ecosystem: device types of tests and their variables, launchers under the shim, types."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from harness import clean_environment, run
from harness.processes import ROOT

from .test_pytest_plugin import CHOSEN, NAMED, SUITE

LAUNCHED = ROOT / "tests" / "launched"
DEVICE_TYPES = SUITE / "device_types.py"
OURS = (sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--devices", "2")


def results(text: str) -> dict[str, str]:
    """Return the result of each of unittest's tests."""
    return dict(re.findall(r"^(\w+) \(.*?\) \.\.\. .*?(ok|skipped|ERROR|FAIL)", text, re.MULTILINE | re.DOTALL))


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda"},
            {"test_add_cuda": "ok", "test_two_cuda": "ok", "test_that_leaves_memory_cuda": "ok"},
        ),
        (
            {"PYTORCH_TESTING_DEVICE_EXCEPT_FOR": "cuda"},
            {"test_add_cpu": "ok", "test_two_cpu": "skipped", "test_that_leaves_memory_cpu": "skipped"},
        ),
        (
            {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda", "PYTORCH_TEST_CUDA_MEM_LEAK_CHECK": "1"},
            {"test_add_cuda": "ok", "test_two_cuda": "ok", "test_that_leaves_memory_cuda": "ERROR"},
        ),
    ],
    ids=["only", "except", "leaks"],
)
def test_device_types(variables: dict[str, str], expected: dict[str, str]) -> None:
    done = run([*OURS, DEVICE_TYPES, "-v"], environment=clean_environment(**variables), timeout=300)
    assert results(done.err) == expected, done


@pytest.mark.native
@pytest.mark.slow
def test_device_types_in_workers() -> None:
    words = [*NAMED, "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(SUITE), *CHOSEN, "-n", "2"]
    environment = clean_environment(PYTORCH_TESTING_DEVICE_ONLY_FOR="cuda")
    done = run([sys.executable, "-m", "pytest", *words, DEVICE_TYPES], environment=environment, timeout=300)
    assert "= 3 passed in " in done.out, done


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.parametrize("first", [["torchrun"], ["accelerate", "launch", "--multi_gpu"]], ids=lambda first: first[0])
@pytest.mark.parametrize("shim", [True, False], ids=["shim", "command line"])
def test_launchers_as_they_are_typed(first: list[str], shim: bool, tmp_path: Path) -> None:
    if importlib.util.find_spec("accelerate") is None and first[0] == "accelerate":
        pytest.skip("not installed: accelerate (the extra 'clients' has it)")
    scripts = Path(sysconfig.get_path("scripts"))
    processes = "--nproc-per-node" if first[0] == "torchrun" else "--num_processes"
    words = [*first[1:], processes, "2", str(LAUNCHED / f"{first[0]}_ddp.py")]
    result = tmp_path / "result.json"
    settings = {"TORCHDEVICE_DRIVER": "virtual", "TORCHDEVICE_DEVICES": "2", "LAUNCHED_RESULT": str(result)}
    if shim:
        settings |= {"TORCHDEVICE_AUTO": "1", "PYTHONPATH": f"{ROOT / 'shim'}:{ROOT}"}
    command = [scripts / first[0], *words] if shim else [*OURS, first[0], *words]
    done = run([str(word) for word in command], environment=clean_environment(**settings), folder=tmp_path, timeout=300)
    assert done.status == 0 and '"devices": ["cuda:0", "cuda:1"]' in result.read_text(), done


@pytest.mark.slow
def test_types_of_the_package_are_checked_in_programs(tmp_path: Path) -> None:
    """Install the package beside no torch: by py.typed, a program's mypy finds its wrong calls."""
    pytest.importorskip("mypy")
    venv.create(tmp_path / "venv")
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    unneeded = shutil.ignore_patterns("csrc", "include", "__pycache__", "gpus")
    shutil.copytree(ROOT / "torchdevice_cuda", site / "torchdevice_cuda", ignore=unneeded)
    program = tmp_path / "program.py"
    lines = ("import torchdevice_cuda", "name: int = torchdevice_cuda.driver().name", "torchdevice_cuda.aktivate(1)")
    program.write_text("\n".join(lines))
    options = ("--python-executable", tmp_path / "venv" / "bin" / "python", "--cache-dir", tmp_path / "cache")
    done = run([sys.executable, "-m", "mypy", *map(str, options), str(program)], folder=tmp_path, timeout=300)
    assert "program.py:2: error: Incompatible types in assignment" in done.out, done
    assert "program.py:3: error:" in done.out and "py.typed" not in done.out, done
