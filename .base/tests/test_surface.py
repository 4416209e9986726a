"""Every name of torch.cuda is there, of the same kind, with the same signature and members (tools/gap.py)."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT, clean_environment, run_python


def gap(*arguments: str, activate: bool = True) -> subprocess.CompletedProcess:
    launcher = ["-m", "torchdevice_cuda", "--driver", "cpu"] if activate else []
    command = [sys.executable, *launcher, str(ROOT / "tools" / "gap.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=clean_environment())


def test_no_gap_to_the_surface_of_this_torch() -> None:
    done = gap(str(ROOT / "tests" / "data" / "surface-2.13.0.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 missing, 0 different" in done.stdout


def test_the_tool_sees_a_gap(tmp_path) -> None:
    """Stock torch without CUDA has dummies: the comparison that finds nothing here must find those."""
    done = gap(str(ROOT / "tests" / "data" / "surface-2.13.0.json"), activate=False)
    assert done.returncode == 1 and "missing member: torch.cuda.streams.Stream.priority" in done.stdout, done.stdout


def test_c_names_of_cuda_builds_are_there(run) -> None:
    names = (ROOT / "tests" / "data" / "cuda-only-c-names-2.13.0.txt").read_text().split()
    run(f"missing = [name for name in {names!r} if not hasattr(torch._C, name)]; assert not missing, missing")


def test_no_two_names_share_a_function() -> None:
    """The compiler refuses a function that it finds under two names."""
    run_python(
        """
        import torchdevice_cuda; torchdevice_cuda.activate(driver="cpu")
        import torch, types
        seen = {}
        for name, value in vars(torch.cuda).items():
            if isinstance(value, types.FunctionType):
                assert seen.setdefault(id(value), name) == name, (seen[id(value)], name)
        """
    )
