"""Helpers that run real programs in child processes."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Settings of the process that runs the tests must not leak into the programs under test.
OURS = ("TORCHDEVICE_", "TORCH_ALLOW_REDIRECTS", "CUDA_VISIBLE_DEVICES")

KEPT = ("TORCHDEVICE_CACHE_DIR",)

BEFORE = "import torchdevice_cuda; torchdevice_cuda.activate({settings}); import torch"
AFTER = "import torch; import torchdevice_cuda; torchdevice_cuda.activate({settings})"
LATE_DYNAMO = "import torch, torch._dynamo; import torchdevice_cuda; torchdevice_cuda.activate({settings})"
ORDERS = {"before": BEFORE, "after": AFTER, "after dynamo": LATE_DYNAMO}


#: What programs that are to run everywhere run on: settings of activate(). The Apple GPU is emulated.
PLACES: dict[str, dict[str, str]] = {
    "cpu": {"driver": "cpu"},
    "virtual": {"driver": "virtual"},
    "mps accelerate": {"driver": "mps", "policy": "accelerate"},
    "mps faithful": {"driver": "mps", "policy": "faithful"},
}
#: The environment in which a driver stands on a device of ours, and which device that is.
EMULATION: dict[str, dict[str, str]] = {"mps": {"TORCHDEVICE_EMULATE_MPS": "1"}}
NATIVE = {"virtual": "cuda", "mps": "mps"}
#: Drivers on which a tensor on the device says "cuda".
TRUE_TO_IDENTITY = frozenset({"virtual", "mps"})


def pytest_configure() -> None:
    """Compile the package once, not in each of the children: they may be told not to write what they compiled."""
    compileall.compile_dir(ROOT / "torchdevice_cuda", quiet=2)


def clean_environment(**extra: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key in KEPT or not key.startswith(OURS)}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, **extra}


def run_python(
    code: str, *, timeout: float = 180, check: bool = True, **environment: str
) -> subprocess.CompletedProcess:
    """Run a program in a child, from a file as programs are; its failure is the test's."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(textwrap.dedent(code))
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=clean_environment(**environment),
        )
    if check and done.returncode:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done


def active_program(body: str, order: str = "before", **settings: Any) -> str:
    """A program that activates in the given order and then runs ``body``."""
    settings.setdefault("driver", "cpu")
    arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return ORDERS[order].format(settings=arguments) + "\n" + textwrap.dedent(body)


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess]:
    """Run code under activation (``order=``, settings) and return the finished process."""

    def runner(
        body: str, *, order: str = "before", check: bool = True, env: dict[str, str] | None = None, **settings: Any
    ):
        return run_python(active_program(body, order, **settings), check=check, **(env or {}))

    return runner


@pytest.fixture
def answer(run: Callable[..., subprocess.CompletedProcess]) -> Callable[..., Any]:
    """Run code under activation that sets ``result`` and return it."""

    def asker(body: str, **options: Any) -> Any:
        tail = "\nimport json as _json; print('RESULT ' + _json.dumps(result))"
        out = run(textwrap.dedent(body) + tail, **options).stdout
        return json.loads(out.rpartition("RESULT ")[2])

    return asker


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> dict[str, str]:
    """Each place in turn; the device it needs is built, which may take longer than a program has."""
    from torchdevice_cuda.native import build

    settings = PLACES[request.param]
    kind = NATIVE.get(settings["driver"])
    if kind is not None:
        try:
            build.library(kind)
        except build.BuildError as error:
            pytest.skip(str(error))
    return settings


@pytest.fixture(params=list(ORDERS))
def order(request: pytest.FixtureRequest) -> str:
    """Activation before torch is imported, after it, and after dynamo too."""
    return request.param


@pytest.fixture(scope="session")
def native_library() -> str:
    """The path of the native part, built once where it is missing; tests that need it are skipped without a compiler."""
    from torchdevice_cuda.native import build

    if not build.has_compiler():
        pytest.skip("no C++ compiler to build the native device with")
    done = subprocess.run(
        [sys.executable, "-m", "torchdevice_cuda", "--build"], capture_output=True, text=True, env=clean_environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
