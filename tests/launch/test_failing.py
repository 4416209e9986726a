"""A driver that cannot start, and parts that are missing: one line, exit status 2, never stock torch by accident."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import CPU, VIRTUAL, Finished, cuda_of_build, run, run_forked
from harness.places import MPS, ChildConfig, must_be_ready
from harness.processes import ROOT

from .running import OURS, environment, make_environment, our_packages, write

#: Programs that would be glad to run without CUDA.
ENDINGS = Path(__file__).with_name("failing")
SHIM = ROOT / "shim"
HELLO = "import torch; print(torch.cuda.is_available(), torch.ones(3, device='cuda').sum().item())"


@pytest.fixture
def unbuilt(tmp_path: Path) -> dict[str, str]:
    """Return a machine where the native device is not built and may not be."""
    return {"TORCHDEVICE_CACHE_DIR": str(tmp_path / "cache"), "TORCHDEVICE_BUILD": "0"}


def start(*words: str, path: Sequence[Path] = (ROOT,), **changes: str) -> Finished:
    """Run Python and return its status and output."""
    return run([sys.executable, *words], environment=environment(path, **changes), folder="/")


def is_one_line(done: Finished, *words: str) -> None:
    """Assert status 2 and one error line with these words, and that the program printed nothing."""
    assert done.status == 2, done
    assert done.out == "", done
    assert done.err.count("\n") == 1, done
    for word in words:
        assert word in done.err


# ------------------------------------------------------------------------- a driver by name
UNAVAILABLE: dict[str, tuple[str, dict[str, str]]] = {
    "cuda": ("no CUDA GPU answers" if cuda_of_build() else "this torch is built without CUDA", {}),
    "mps": ("this torch is built without MPS", {}),
    "virtual": ("the native device is not built", {}),
    "emulated mps": ("the native device is not built", {"TORCHDEVICE_EMULATE_MPS": "1"}),
}


@pytest.mark.parametrize("name", UNAVAILABLE)
def test_a_named_driver_that_cannot_start_ends_the_program(no_gpu: None, unbuilt: dict[str, str], name: str) -> None:
    """In a fork that has torch; in a new process below."""
    words, more = UNAVAILABLE[name]
    asked = ("--driver", name.split()[-1], "-c", HELLO)
    done = run_forked(*OURS, *asked, environment={**unbuilt, **more}, check=False)
    is_one_line(done, f"torchdevice-cuda: driver '{name.split()[-1]}' was asked for, but {words}")


def test_so_it_does_while_torch_is_imported(no_gpu: None, unbuilt: dict[str, str]) -> None:
    words, _ = UNAVAILABLE["virtual"]
    done = start(*OURS, "--driver", "virtual", "-c", HELLO, **unbuilt)
    is_one_line(done, f"torchdevice-cuda: driver 'virtual' was asked for, but {words}")


def test_so_does_the_shim(no_gpu: None, unbuilt: dict[str, str]) -> None:
    words, more = UNAVAILABLE["emulated mps"]
    asked = {"TORCHDEVICE_AUTO": "1", "TORCHDEVICE_DRIVER": "mps"}
    done = start("-c", HELLO, path=[SHIM, ROOT], **unbuilt, **asked, **more)
    is_one_line(done, f"torchdevice-cuda-shim: driver 'mps' was asked for, but {words}")


@pytest.mark.parametrize("program", sorted(path.name for path in ENDINGS.glob("*.py")))
@pytest.mark.parametrize("way", [pytest.param("command line", marks=pytest.mark.slow), "shim"])
def test_a_program_cannot_go_on_by_accident(unbuilt: dict[str, str], way: str, program: str) -> None:
    words, path = (OURS, [ROOT]) if way == "command line" else ((), [SHIM, ROOT])
    asked = {"TORCHDEVICE_AUTO": "1", "TORCHDEVICE_DRIVER": "virtual"}
    done = start(*words, str(ENDINGS / program), path=path, **unbuilt, **asked)
    assert done.status == 2, done
    assert "stock" not in done.out
    assert "driver 'virtual' was asked for, but the native device is not built" in done.err


def test_in_a_test_run_it_is_no_skipped_test(unbuilt: dict[str, str], tmp_path: Path) -> None:
    """An image's user runs tests that skip where there is no GPU."""
    write(
        tmp_path / "test_gpu.py",
        "import pytest\ntorch = pytest.importorskip('torch')\n"
        "@pytest.mark.skipif(not torch.cuda.is_available(), reason='no GPU')\ndef test_gpu(): pass\n",
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    asked = {"TORCHDEVICE_AUTO": "1", "TORCHDEVICE_DRIVER": "virtual"}
    done = start(*words, path=[SHIM, ROOT], **unbuilt, **asked)
    assert done.status == 2, done
    assert "driver 'virtual' was asked for, but the native device is not built" in done.out
    assert "skipped" not in done.out
    assert "INTERNALERROR" not in done.out


def test_a_program_without_torch_is_not_disturbed(unbuilt: dict[str, str]) -> None:
    asked = {"TORCHDEVICE_AUTO": "1", "TORCHDEVICE_DRIVER": "virtual"}
    assert start("-c", "print(1)", path=[SHIM, ROOT], **unbuilt, **asked) == Finished(0, "1\n", "")


def test_try_goes_on_with_a_warning(unbuilt: dict[str, str]) -> None:
    code = "import torch; print(torch.cuda.is_available(), torch.ones(3).sum().item())"
    asked = {"TORCHDEVICE_AUTO": "try", "TORCHDEVICE_DRIVER": "virtual"}
    done = start("-c", code, path=[SHIM, ROOT], **unbuilt, **asked)
    assert (done.status, done.out) == (0, "False 3.0\n"), done
    assert done.err.startswith("torchdevice-cuda-shim: torch stays as it is: driver 'virtual' was asked for, but ")
    assert done.err.count("\n") == 1


# ------------------------------------------------------------------------------------- auto
def test_auto_takes_the_next_driver_and_says_why_once(no_gpu: None, unbuilt: dict[str, str]) -> None:
    """A child of the program takes the same one and does not say it again."""
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HELLO!r}], check=True)"
    done = start(*OURS, "-c", f"{HELLO}; sys = __import__('sys'); sys.stdout.flush(); {child}", **unbuilt)
    assert (done.status, done.out) == (0, "True 3.0\n" * 2)
    assert done.err.startswith("torchdevice_cuda: using the cpu driver, not virtual: the native device is not built")
    assert done.err.count("\n") == 1


@pytest.mark.native
def test_a_device_that_does_not_come_up_is_passed_over(no_gpu: None) -> None:
    """The library loads, and then the host has no room for a device: the cpu driver answers, wholly."""
    must_be_ready(VIRTUAL)
    code = (ENDINGS / "install" / "refused.py").read_text()
    done = start("-c", code)
    assert (done.status, done.out) == (0, "cpu True 12.0 True\n"), done
    assert done.err.startswith("torchdevice_cuda: using the cpu driver, not virtual: no room")


@pytest.mark.native
def test_a_named_device_that_does_not_come_up_is_an_error() -> None:
    must_be_ready(VIRTUAL)
    code = (ENDINGS / "install" / "refused.py").read_text()
    done = start("-c", code, TORCHDEVICE_DRIVER="virtual")
    assert done.status == 1
    assert done.err.endswith("DriverUnavailable: driver 'virtual' was asked for, but no room\n")


# ------------------------------------------------------------------------------ what is needed
def without(name: str, folder: Path) -> list[Path]:
    """Our packages, less one."""
    for packages in map(Path, our_packages()):
        shown = folder / packages.parts[-2]
        shown.mkdir(parents=True, exist_ok=True)
        for entry in packages.iterdir():
            if entry.name != name and entry.suffix != ".pth":
                (shown / entry.name).symlink_to(entry)
    return sorted(path for path in folder.iterdir())


@pytest.mark.parametrize(
    "name", ["psutil", *(pytest.param(name, marks=pytest.mark.slow) for name in ("platformdirs", "filelock", "jinja2"))]
)
def test_a_missing_package_is_named(tmp_path: Path, name: str) -> None:
    seen = without(name, tmp_path / "seen")
    python = make_environment(tmp_path / "bare", shim=False, see=[])
    for words, path in (([*OURS, "--driver", "cpu"], [ROOT]), ([], [SHIM, ROOT])):
        asked = environment([*path, *seen], TORCHDEVICE_AUTO="1", TORCHDEVICE_DRIVER="cpu")
        done = run([str(python), *words, "-c", HELLO], environment=asked, folder="/")
        is_one_line(done, f"torchdevice_cuda needs {name}, not installed here; pip install {name}")


@pytest.mark.parametrize("hidden", ["torchdevice_cuda.py", "torchdevice_cuda/readme.txt"])
def test_a_file_in_the_way_is_named(tmp_path: Path, hidden: str) -> None:
    file = write(tmp_path / "project" / hidden, "")
    write(tmp_path / "project" / "main.py", HELLO)
    bare = make_environment(tmp_path / "bare", shim=False, see=[])
    asked = environment([SHIM], TORCHDEVICE_AUTO="1")
    done = run([str(bare), "main.py"], environment=asked, folder=tmp_path / "project")
    there = file if file.suffix == ".py" else file.parent
    is_one_line(done, f"{there} hides the package torchdevice_cuda: rename it")


def test_a_torch_that_is_too_old_is_named(tmp_path: Path) -> None:
    shutil.copytree(ENDINGS / "old" / "torch", tmp_path / "torch")
    done = start(*OURS, "--driver", "cpu", "-c", HELLO, path=[tmp_path, ROOT])
    is_one_line(done, "torch 2.5.1 is too old for torchdevice_cuda", "which needs torch 2.6 or newer")


# -------------------------------------------------------------------------------- no docstrings
@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the folder in which the first test compiles torch without docstrings, which takes most of the time."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled"))}


@pytest.mark.parametrize(
    "where",
    [pytest.param(each, marks=[*each.marks, pytest.mark.slow], id=str(each)) for each in (CPU, VIRTUAL, MPS)],
)
def test_optimised_python(where: ChildConfig, compiled: dict[str, str]) -> None:
    must_be_ready(where)
    words = ("-OO", *OURS, "--driver", str(where.driver), "-c", HELLO)
    done = start(*words, **compiled, **where.full_environment())
    assert done == Finished(0, "True 3.0\n", "")
