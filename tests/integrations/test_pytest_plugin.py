"""``pytest --torchdevice`` on a suite that is skipped without it."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from harness import Finished, clean_environment, run_forked
from native.compilers import Bench

from torchdevice_cuda import children
from torchdevice_cuda.cuda_cpp import nvcc

SUITE = Path(__file__).with_name("suite")
PLUGIN = "torchdevice_cuda.integrations.pytest_plugin"
# An installed plugin is found by its entry point, and cannot be named again.
INSTALLED = any(point.value == PLUGIN for found in metadata.distributions() for point in found.entry_points)
NAMED = () if INSTALLED else ("-p", PLUGIN)
CHOSEN = ("--torchdevice", "--torchdevice-driver", "virtual", "--torchdevice-gpu", "h200", "--torchdevice-devices", "2")


def suite(*options: str, file: str = "gpu_cases.py", **environment: str) -> Finished:
    """Run pytest on a file of the suite."""
    common = (*NAMED, "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(SUITE), "-rs", "--strict-markers")
    return run_forked("-m", "pytest", *common, *options, SUITE / file, environment=environment, check=False)


def test_off_until_it_is_asked() -> None:
    done = suite()
    assert re.search(r"= 6 skipped in ", done.out), done
    assert "torchdevice:" not in done.out


@pytest.mark.native
@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_tests_for_gpus_run(workers: str) -> None:
    done = suite(*CHOSEN, "--torchdevice-memory-limit", "16MiB", "-n", workers)
    assert re.search(r"= 1 failed, 4 passed, 1 skipped in ", done.out), done
    assert "torchdevice: CUDA is emulated (driver virtual, gpu h200, devices 2)" in done.out
    assert "held 32.0 MiB of the GPU at most, more than --torchdevice-memory-limit 16.0 MiB" in done.out
    assert "needs a real CUDA GPU: a kernel of ours" in done.out
    peaks, _, left = done.out.partition("device memory that tests left behind")
    assert re.search(r"32\.00 MiB  .*::test_holds_much\n +4\.00 MiB  .*::test_computes\n +1\.00 MiB  ", peaks)
    assert re.findall(r"MiB  .*::(\w+)", left) == ["test_leaves_memory"]


LEAKS = """
import torch
kept = []
def test_leaks():
    kept.append(torch.ones(100, device="cuda"))
def test_leaks_above_the_limit():
    kept.append(torch.ones(4 << 20, device="cuda"))
def test_raises():
    x = torch.ones(1 << 20, device="cuda")
    assert x.sum() == 0
"""


@pytest.mark.native
def test_memory_of_failed_tests_is_no_leak(tmp_path: Path) -> None:
    """The traceback of a failed test holds its tensors, unless the limit alone fails it."""
    case = tmp_path / "test_leaks.py"
    case.write_text(LEAKS)
    options = (*NAMED, *CHOSEN, "--torchdevice-memory-limit", "12MiB", "-c", "/dev/null", case)
    done = run_forked("-m", "pytest", *options, check=False)
    assert " 2 failed, 1 passed in " in done.out, done
    _, _, left = done.out.partition("device memory that tests left behind")
    assert re.findall(r"([\d.]+ \w+)  .*::(\w+)\n", left.partition("===")[0]) == [
        ("16.00 MiB", "test_leaks_above_the_limit"),
        ("0.50 KiB", "test_leaks"),
    ]


@pytest.mark.native
@pytest.mark.parametrize(
    ("options", "failed"),
    [
        ((), ["test_with_the_mark"]),
        (("--torchdevice-check-streams", "error"), ["test_with_the_mark", "test_with_the_option"]),
    ],
)
def test_races_fail_tests(options: tuple[str, ...], failed: list[str]) -> None:
    done = suite("--torchdevice", "--torchdevice-driver", "virtual", *options, "-rf", file="race_cases.py")
    assert sorted(re.findall(r"^FAILED \S+::(\w+)", done.out, re.M)) == failed, done
    assert len(re.findall(r"^E +\S*StreamRaceError: Race between streams: ", done.out, re.M)) == len(failed), done
    assert f"= {len(failed)} failed, {4 - len(failed)} passed" in done.out


def test_errors_in_kernels_fail_tests(tmp_path: Path) -> None:
    case = tmp_path / "test_kernels.py"
    case.write_text(
        "import pytest, torch\n"
        "text = '__global__ void adds(int* x, int n) { x[threadIdx.x] += blockIdx.x + n; }'\n"
        "@pytest.mark.parametrize('blocks', [1, 2])\n"
        "def test_it(blocks):\n"
        "    kernel = torch.cuda._compile_kernel(text, 'adds')\n"
        "    kernel(grid=(blocks, 1, 1), block=(1, 1, 1), args=[torch.zeros(1, dtype=torch.int32, device='cuda'), 1])\n"
    )
    options = (*NAMED, "--torchdevice", "--torchdevice-driver", "cpu", "--torchdevice-sanitize", "racecheck")
    done = run_forked("-m", "pytest", *options, "-rf", "-c", "/dev/null", case, check=False)
    assert re.findall(r"^FAILED \S+::(\S+)", done.out, re.M) == ["test_it[2]"], done
    assert "adds.cu:1: kernel adds: block: [1,0,0], thread: [0,0,0] Error: Race reported" in done.out
    assert done.status == 1


def test_kernels_that_are_not_checked_are_named(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('__global__ void k() {}\nextern "C" void run() { k<<<1, 1>>>(); }\n')
    library = tmp_path / "libk.so"
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("TORCHDEVICE_SANITIZE", raising=False)
        assert nvcc.main(["-shared", "-Xcompiler", "-fPIC", str(tmp_path / "k.cu"), "-o", str(library)]) == 0
    case = tmp_path / "test_it.py"
    case.write_text(f"import ctypes\ndef test_it():\n    k = ctypes.CDLL({str(library)!r})\n    k.run(); k.run()\n")
    options = (*NAMED, "--torchdevice", "--torchdevice-driver", "cpu", "--torchdevice-sanitize", "memcheck")
    done = run_forked("-m", "pytest", *options, "-c", "/dev/null", case, check=False)
    assert done.out.count(f"the kernels of {library} are not checked: compile it with TORCHDEVICE_SANITIZE") == 1
    assert "1 passed, 1 warning in" in done.out and done.status == 0
    strict = run_forked("-m", "pytest", *options, "-W", "error", "-c", "/dev/null", case, check=False)
    assert "1 failed in" in strict.out, strict


@pytest.mark.mps
@pytest.mark.native
@pytest.mark.slow
@pytest.mark.parametrize("name", ["fallback", "departure"])  # the second is the old name
def test_a_test_with_a_fallback_fails(name: str, tmp_path: Path) -> None:
    case = tmp_path / "test_leaving.py"
    case.write_text("import torch\ndef test_it():\n    torch.heaviside(*[torch.ones(2, device='cuda')] * 2)\n")
    options = (*NAMED, "--torchdevice", "--torchdevice-driver", "mps", f"--torchdevice-fail-on-{name}")
    here = {"TORCHDEVICE_EMULATE_MPS": "1", "TORCHDEVICE_EMULATE_MPS_LACKS": "heaviside"}
    done = run_forked("-m", "pytest", *options, "-c", "/dev/null", case, environment=here, check=False)
    assert "left the GPU (--torchdevice-fail-on-fallback):" in done.out, done
    assert "heaviside" in done.out
    assert " 1 failed in " in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--torchdevice", "--torchdevice-streams", "eager"], "--torchdevice-streams='eager' cannot be read"),
        (["--torchdevice", "--torchdevice-gpu", "h299"], "--torchdevice: --torchdevice-gpu='h299' cannot be read"),
        (["--torchdevice", "--torchdevice-memory-limit", "much"], "--torchdevice-memory-limit='much' cannot be read"),
    ],
)
def test_invalid_options_are_named(options: list[str], said: str) -> None:
    done = suite(*options)
    assert done.status == 4
    assert said in done.err


NEEDING = """
import pytest, torch

@pytest.mark.torchdevice_needs(devices=2)
def test_two():
    assert torch.cuda.device_count() == 2

@pytest.mark.torchdevice_needs(devices=3)
def test_three():
    raise AssertionError

@pytest.mark.torchdevice_needs(memory="1MiB")
@pytest.mark.parametrize("mebibytes", [1, 2])
def test_fits(mebibytes):
    torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
"""


@pytest.mark.native
@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.slow), "1"])
def test_an_option_of_a_gpu_asks_for_one(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_needing.py").write_text(NEEDING)
    options = ("--torchdevice-gpu", "t4", "--torchdevice-devices", "2", "-n", workers, "-rs")
    done = suite(*options, file=str(tmp_path / "test_needing.py"), TORCHDEVICE_DRIVER="virtual")
    assert re.search(r"= 1 failed, 2 passed, 1 skipped in ", done.out), done
    assert "CUDA is emulated (gpu t4, devices 2)" in done.out
    assert "needs 3 GPUs, there are 2: --torchdevice-devices" in done.out
    assert "held 2.0 MiB of the GPU at most, more than memory of its mark torchdevice_needs: 1.0 MiB" in done.out


def test_without_a_gpu_what_needs_one_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_needing.py").write_text(NEEDING)
    done = suite(file=str(tmp_path / "test_needing.py"))
    assert re.search(r"= 4 skipped in ", done.out), done
    assert "needs 2 GPUs, there are 0: --torchdevice-devices" in done.out
    assert "needs a GPU, there are 0: --torchdevice-devices" in done.out


def shimmed(**variables: str) -> dict[str, str]:
    """Return the environment of a process that the shim puts under torchdevice_cuda."""
    path = f"{children.FOLDER}:{clean_environment()['PYTHONPATH']}"
    return {"PYTHONPATH": path, "TORCHDEVICE_AUTO": "1", **variables}


def test_needs_real_cuda_under_the_shim() -> None:
    here = {"TORCHDEVICE_DRIVER": "cpu", "TORCHDEVICE_GPU": "h200", "TORCHDEVICE_DEVICES": "2"}
    done = suite("-n", "0", **shimmed(**here))
    assert re.search(r"= 5 passed, 1 skipped in ", done.out), done
    assert "needs a real CUDA GPU: a kernel of ours" in done.out


# ---- builds ----------------------------------------------------------------------------------------------------------
VIRTUAL = ("--torchdevice", "--torchdevice-driver", "virtual")


def run_on(case: str, folder: Path, *options: str, environment: dict[str, str], test: str = "") -> Finished:
    """Run pytest on one file with this text, or on one of its tests."""
    file = folder / "test_case.py"
    file.write_text(case)
    common = (*NAMED, "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(folder))
    return run_forked("-m", "pytest", *common, *options, f"{file}{test}", environment=environment, check=False)


def test_a_build_is_seen(tmp_path: Path) -> None:
    """Build before tests are collected; pytest does not capture the build's output."""
    bench = Bench(tmp_path)
    case = "print('collecting')\ndef test_it(): pass\n"
    done = run_on(case, tmp_path, *VIRTUAL, environment=bench.environment())
    said = done.err.splitlines()
    assert done.status == 0 and bench.links == 1, done
    assert "building the native device (cuda)" in said[0] and "built in " in said[-1]
    assert any(line.startswith("torchdevice_cuda:   [1/") and " s left)" in line for line in said)
    again = run_on(case, tmp_path, *VIRTUAL, environment=bench.environment())
    assert again.status == 0 and again.err == "" and bench.links == 1


def test_a_build_that_fails_is_one_line(tmp_path: Path) -> None:
    here = Bench(tmp_path).environment("echo x.cpp:1: error: it is broken; exit 1")
    done = run_on("def test_it(): pass\n", tmp_path, *VIRTUAL, environment=here)
    _, line = (line for line in done.err.splitlines() if line)
    assert done.status == 4 and line.startswith("ERROR: --torchdevice: compiling "), done
    assert "x.cpp:1: error: it is broken. All that the compiler said is in " in line
    assert Path(line.rpartition(" is in ")[2]).name == "build.log"


STREAMS = """
import pytest
import torch

def add_on_another_stream(waits):
    x, side = torch.zeros(9, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x += 1
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    return x.sum().item()

@pytest.mark.adversarial_streams
@pytest.mark.parametrize("waits", [False, True])
def test_marked(waits):
    assert add_on_another_stream(waits) == 9

def test_unmarked():
    assert add_on_another_stream(False) == 9
"""


@pytest.mark.native
def test_marked_tests_run_with_many_seeds(tmp_path: Path) -> None:
    options = (*VIRTUAL, "--torchdevice-streams", "adversarial:4")
    done = run_on(STREAMS, tmp_path, *options, "-rf", environment={})
    failed = re.findall(r"^FAILED \S*test_case.py::(\S+)", done.out, re.MULTILINE)
    assert failed and all(re.fullmatch(r"test_marked\[streams=[0-3]-False\]", name) for name in failed), done
    assert f"= {len(failed)} failed, {9 - len(failed)} passed in " in done.out
    again = run_on(STREAMS, tmp_path, *options, environment={}, test=f"::{failed[0]}")
    assert "= 1 failed in " in again.out, again
    assert "= 3 passed in " in run_on(STREAMS, tmp_path, *VIRTUAL, environment={}).out


#: Where torch is imported, and what the line begins with.
IMPORTING = {
    "a file of tests": ("import torch\ndef test_it(): pass\n", "", ()),
    "a test": ("def test_it():\n    import torch\ndef test_other(): pass\n", "", ()),
    "conftest.py": ("def test_it(): pass\n", "import torch\n", ()),
    "pytest_configure": ("def test_it(): pass\n", "def pytest_configure():\n    import torch\n", ()),
    "a worker": ("import torch\ndef test_it(): pass\n", "", ("-n", "1")),
}
#: Which of them pytest treats as it does others.
RARE = {"a test", "pytest_configure"}


@pytest.mark.parametrize(
    "where", [pytest.param(name, marks=[pytest.mark.slow] if name in RARE else []) for name in IMPORTING]
)
def test_the_shim_fails_with_one_line(where: str, tmp_path: Path) -> None:
    case, conftest, options = IMPORTING[where]
    (tmp_path / "conftest.py").write_text(conftest)
    here = shimmed(TORCHDEVICE_DRIVER="virtual", **Bench(tmp_path).environment())
    done = run_on(case, tmp_path, *options, environment=here)
    shown = done.out + done.err
    # pytest's summary repeats it: cut short, or whole where ``CI`` is set.
    told = [line for line in shown.splitlines() if not re.match(r"(ERROR|FAILED) \S+ - ", line)]
    (line,) = (line for line in told if "torchdevice-cuda-shim: " in line)
    assert "torchdevice-cuda-shim: driver 'virtual' was asked for, but the native device is not built" in line
    assert done.status == (1 if options else 2) and " passed" not in shown, done
    assert "Traceback" not in shown and "torchdevice_cuda/" not in shown and "_bootstrap" not in shown, done
