"""The harness's side of pytest: tests that run in children, one a place; and markers for what a machine may lack."""

from __future__ import annotations

import compileall
import functools
import os
import signal
from collections.abc import Iterator

import pytest
from harness import EVERYWHERE, servers
from harness.processes import ROOT, WRITTEN
from harness.running import Batches

BATCHES = pytest.StashKey[Batches]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--fresh``, which bypasses the fork server."""
    parser.addoption("--fresh", action="store_true", help="every child is a new process, which takes twice as long")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package once, not in each of the children: they may be told not to write what they compiled.

    A shell's background job ignores what interrupts it, and so would programs that tests start and interrupt.
    """
    if config.getoption("--fresh"):
        servers.always_fresh()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(ROOT / "torchdevice_cuda", quiet=2)


def pytest_unconfigure() -> None:
    """No child is wanted any more."""
    servers.end()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that runs in children is one test a place; so is one that asks for the place."""
    mark = metafunc.definition.get_closest_marker("child")
    if mark is not None and "place" not in metafunc.fixturenames:
        metafunc.fixturenames.append("place")
    if "place" in metafunc.fixturenames:
        places = EVERYWHERE if mark is None else mark.kwargs["places"]
        metafunc.parametrize("place", [pytest.param(place, marks=place.marks, id=str(place)) for place in places])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Now it is known which tests share a child."""
    session.stash[BATCHES] = Batches(session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call the body in a child where the test says so."""
    if pyfuncitem.get_closest_marker("child") is None:
        return None
    here, *elsewhere = pyfuncitem.session.stash[BATCHES].values(pyfuncitem)
    for there in elsewhere:
        assert here == there
    return True


@functools.cache
def _has_gpu() -> bool:
    import torch

    return bool(torch._C._has_cuda) and torch._C._cuda_getDeviceCount() > 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests for real hardware are run where it is."""
    if item.get_closest_marker("gpu") is not None and not _has_gpu():
        pytest.skip("torch sees no NVIDIA GPU")


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """Check that no test leaves a variable behind: the children of later tests would read it."""
    before = dict(os.environ)
    yield
    changed = {name for name, _ in before.items() ^ os.environ.items()} - WRITTEN
    assert not changed, f"the test left variables of the environment changed: {', '.join(sorted(changed))}"


@pytest.fixture
def no_gpu() -> None:
    """For tests of what a machine without an NVIDIA GPU says."""
    if _has_gpu():
        pytest.skip("this machine has an NVIDIA GPU")
