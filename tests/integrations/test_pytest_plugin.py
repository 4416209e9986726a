"""``pytest --torchdevice`` on a suite that is skipped without it."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from harness import Finished, python

SUITE = Path(__file__).with_name("suite")
PLUGIN = "torchdevice_cuda.integrations.pytest_plugin"
# An installed plugin is found by its entry point, and cannot be named again.
INSTALLED = any(point.value == PLUGIN for found in metadata.distributions() for point in found.entry_points)
NAMED = () if INSTALLED else ("-p", PLUGIN)
CHOSEN = ("--torchdevice", "--torchdevice-driver", "virtual", "--torchdevice-gpu", "h200", "--torchdevice-devices", "2")


def suite(*options: str, **environment: str) -> Finished:
    """A whole run of pytest."""
    common = (*NAMED, "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(SUITE), "-rs", "--strict-markers")
    return python("-m", "pytest", *common, *options, SUITE / "gpu_cases.py", environment=environment, check=False)


def test_off_until_it_is_asked() -> None:
    done = suite()
    assert re.search(r"= 6 skipped in ", done.out), done
    assert "torchdevice:" not in done.out


@pytest.mark.native
@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_tests_for_gpus_run(workers: str) -> None:
    done = suite(*CHOSEN, "--torchdevice-memory-limit", "16MiB", "-n", workers)
    assert re.search(r"= 1 failed, 4 passed, 1 skipped in ", done.out), done
    assert "torchdevice: CUDA is stood in for (driver virtual, gpu h200, devices 2)" in done.out
    assert "held 32.0 MiB of the GPU at most, more than --torchdevice-memory-limit 16.0 MiB" in done.out
    assert "needs a real CUDA GPU: a kernel of ours" in done.out
    peaks, _, left = done.out.partition("device memory that tests left behind")
    assert re.search(r"32\.00 MiB  .*::test_holds_much\n +4\.00 MiB  .*::test_computes\n +1\.00 MiB  ", peaks)
    assert re.findall(r"MiB  .*::(\w+)", left) == ["test_leaves_memory"]


@pytest.mark.mps
@pytest.mark.native
@pytest.mark.slow
def test_what_leaves_the_gpu_fails(tmp_path: Path) -> None:
    case = tmp_path / "test_leaving.py"
    case.write_text("import torch\ndef test_it():\n    torch.heaviside(*[torch.ones(2, device='cuda')] * 2)\n")
    options = (*NAMED, "--torchdevice", "--torchdevice-driver", "mps", "--torchdevice-fail-on-departure")
    here = {"TORCHDEVICE_EMULATE_MPS": "1", "TORCHDEVICE_EMULATE_MPS_LACKS": "heaviside"}
    done = python("-m", "pytest", *options, "-c", "/dev/null", case, environment=here, check=False)
    assert "left the GPU (--torchdevice-fail-on-departure):" in done.out, done
    assert "heaviside" in done.out
    assert " 1 failed in " in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--torchdevice-gpu", "h200"], "--torchdevice-gpu needs --torchdevice"),
        (["--torchdevice-memory-limit", "1MiB"], "--torchdevice-memory-limit needs --torchdevice"),
        (["--torchdevice", "--torchdevice-gpu", "h299"], "--torchdevice: --torchdevice-gpu='h299' cannot be read"),
        (["--torchdevice", "--torchdevice-memory-limit", "much"], "--torchdevice-memory-limit='much' cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(options: list[str], said: str) -> None:
    done = suite(*options)
    assert done.status == 4
    assert said in done.err
