"""Two hosts: network namespaces with a wire between them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import STOCK, clean_environment, in_child

from .test_failing import resumed_alone

NAMES = ("tdc-a", "tdc-b")
ADDRESSES = ("10.77.13.1", "10.77.13.2")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@pytest.fixture
def hosts() -> Iterator[None]:
    if shutil.which("ip") is None:
        pytest.skip("there is no ip command")
    try:
        _ip("netns", "add", NAMES[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode()}")
    try:
        _ip("netns", "add", NAMES[1])
        _ip("link", "add", "tdc-a0", "netns", NAMES[0], "type", "veth", "peer", "name", "tdc-b0", "netns", NAMES[1])
        for name, wire, address in zip(NAMES, ("tdc-a0", "tdc-b0"), ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", wire)
            _ip("-n", name, "link", "set", wire, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=30)


@pytest.mark.slow
@pytest.mark.native
def test_data_parallel_across_two_hosts(hosts: None) -> None:
    program = Path(__file__).with_name("programs") / "across.py"
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", str(program)]
    started = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, *command],
            env=clean_environment(MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29400", RANK=str(rank), WORLD_SIZE="2"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, name in enumerate(NAMES)
    ]
    try:
        said = [one.communicate(timeout=120) for one in started]
    finally:
        for one in started:
            one.kill()
    expected = pytest.approx(in_child(resumed_alone, STOCK.when("after")), abs=1e-5)
    for out, err in said:
        assert "losses" in out, err
        assert [float(word) for word in out.split("losses")[1].split()] == expected
