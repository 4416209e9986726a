"""Ranks that end, or never come: nobody waits for ever, and everybody is told why."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from harness import CPU, VIRTUAL, child, clean_environment, in_child, run_forked

from .disagreeing import disagree
from .ranks import free_port

_PROGRAM = Path(__file__).with_name("programs") / "ending.py"
#: Seconds in which a process has to end that is told to; the groups' timeout is 120.
_SOON = 30.0


class _Rank:
    """A rank of the program."""

    def __init__(self, driver: str, how: str, rank: int, size: int, port: int, errors: IO[bytes]) -> None:
        where = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        self.errors = errors
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torchdevice_cuda", "--driver", driver, str(_PROGRAM), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=clean_environment(**{name: str(value) for name, value in where.items()}),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> str:
        """Have it call a collective; what it is told."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Any]:
    started: list[_Rank] = []

    def start(driver: str, how: str, size: int = 2) -> list[_Rank]:
        port = free_port()
        for rank in range(size):
            started.append(_Rank(driver, how, rank, size, port, (tmp_path / f"{rank}").open("w+b")))
        assert [one.line() for one in started] == ["ready"] * size
        return started

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()
        one.errors.close()


def _slow(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.native
@pytest.mark.parametrize(
    ("driver", "how"),
    [
        ("virtual", "in a collective"),
        _slow("virtual", "in a reduction of another type"),
        _slow("virtual", "while it receives"),
        _slow("virtual", "while it synchronizes"),
        _slow("cpu", "in a collective"),
    ],
)
def test_ctrl_c(ranks: Any, driver: str, how: str) -> None:
    """The rank ends at once, and the one that waits for it is told."""
    first, second = ranks(driver, how)
    time.sleep(1)
    begun = time.monotonic()
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(_SOON) != 0
    assert time.monotonic() - begun < _SOON / 2
    assert "KeyboardInterrupt" in first.said()
    assert second.go_on().startswith("told")
    assert second.process.wait(_SOON) == 0, second.said()


@pytest.mark.native
@pytest.mark.parametrize(
    ("driver", "how"),
    [
        ("virtual", "with pending work"),
        _slow("virtual", "with a pending future"),
        _slow("virtual", "with a pending receive"),
        _slow("cpu", "with pending work"),
    ],
)
def test_exit(ranks: Any, driver: str, how: str) -> None:
    first, second = ranks(driver, how)
    begun = time.monotonic()
    assert first.process.wait(_SOON) == 0, first.said()
    assert time.monotonic() - begun < _SOON / 2
    assert "Traceback" not in first.said()
    assert "terminate called" not in first.said()
    assert second.go_on().startswith("told")
    assert second.process.wait(_SOON) == 0, second.said()


# ------------------------------------------------------------------------ ranks that never come
_INIT = "import datetime, torch.distributed as d; d.init_process_group('nccl', timeout=datetime.timedelta(seconds={}))"


def _init(rank: int, size: int, port: int, seconds: int) -> tuple[list[str], dict[str, str]]:
    where = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = ["-m", "torchdevice_cuda", "--driver", "cpu", "-c", _INIT.format(seconds)]
    return command, {name: str(value) for name, value in where.items()}


@pytest.mark.slow
def test_a_world_size_that_is_too_large() -> None:
    command, environment = _init(0, 2, free_port(), 3)
    done = run_forked(*command, environment=environment, check=False)
    assert done.status == 1
    assert "waiting for clients. 1/2 clients joined" in done.err.splitlines()[-1], done.err


@pytest.mark.slow
def test_a_world_size_that_is_too_small() -> None:
    """The rank that is not in the world is told at once, and the first when its time is over."""
    port, started = free_port(), []
    for rank in (0, 3):
        command, environment = _init(rank, 2, port, 15)
        whole = clean_environment(**environment)
        started.append(subprocess.Popen([sys.executable, *command], env=whole, stderr=subprocess.PIPE, text=True))
    first, last = (one.communicate(timeout=100)[1] for one in started)
    assert "Rank 3 is not in a process group of 2 ranks" in last, last
    assert "Rank 1 has not joined the process group: " in first, first


@child(CPU)
def test_a_rank_that_another_process_has() -> None:
    """The later one is told: it would take the place of the first, and both would wait for ever."""
    from torchdevice_cuda.distributed import membership

    store, here = dist.HashStore(), socket.gethostname()
    store.set("members/1", f"0 1;{here};{os.getppid()}")
    with pytest.raises(RuntimeError, match=f"^Rank 1 of a process group is taken: process {os.getppid()} has it"):
        membership.check(store, 1, 2, [])
    # One that has ended left it behind; this process has it itself.
    for holder in (f"{here};{1 << 22}", f"elsewhere;{os.getppid()}", f"{here};{os.getpid()}"):
        store = dist.HashStore()
        store.set("members/0", "0 1;elsewhere;1")
        store.set("members/1", f"0 1;{holder}")
        assert membership.check(store, 1, 2, []) == ["members/0", "members/1"]


# ------------------------------------------------------------------------ more ranks than devices
def _lose_one(rank: int, port: int, queue: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=4, timeout=datetime.timedelta(seconds=120))
    found = disagree(rank, 4, ["reduction", "broadcast's root", "splits"])
    x = torch.ones(1000, device="cuda")
    dist.all_reduce(x)
    queue.put((rank, found, x[0].item()))
    if rank == 2:
        queue.put(None)  # it is written before the process ends
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    try:
        for _ in range(3):
            dist.all_reduce(x)
        said = "nothing"
    except RuntimeError as error:
        said = str(error)
    queue.put((rank, said, time.monotonic() - begun))


def lose_one() -> list[Any]:
    context = mp.get_context("spawn")
    queue: Any = context.SimpleQueue()
    port = free_port()
    started = [context.Process(target=_lose_one, args=(rank, port, queue)) for rank in range(4)]
    for one in started:
        one.start()
    found = [queue.get() for _ in range(8)]
    for one in started:
        one.join()
    return [one for one in found if one is not None]


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("devices", [1, 2])
def test_one_of_four_ranks_is_killed(devices: int) -> None:
    """All others are told at once, also those that wait for another."""
    found = in_child(lose_one, VIRTUAL.with_settings(devices=devices), seconds=300)
    agreed = {one[0]: one[1:] for one in found if isinstance(one[1], dict)}
    assert [value for _, value in agreed.values()] == [4.0] * 4
    for name in agreed[0][0]:
        said = [agreed[rank][0][name][0] for rank in range(4)]
        assert said == said[:1] * 4, name
        assert said[0].startswith("Detected mismatch between collectives on ranks."), name
    lost = {one[0]: one[1:] for one in found if isinstance(one[1], str)}
    assert sorted(lost) == [0, 1, 3]
    for said, seconds in lost.values():
        assert "Connection" in said or "closed" in said or "pair" in said, said
        assert seconds < 10
