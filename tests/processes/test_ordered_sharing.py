"""Memory that two processes share, where work runs late (``--streams adversarial``) or is checked."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child

from .peer import peer

ordered = child(VIRTUAL.with_settings(streams=0))
checked = child(VIRTUAL.with_settings(check_streams="error"))
N = 1000
KEPT: dict[str, torch.Tensor] = {}


# ----------------------------------------------------------------- for the other process
def add_up(x: torch.Tensor) -> float:
    return x.sum().item()


def keep(x: torch.Tensor) -> None:
    KEPT["x"] = x


def add_up_kept() -> float:
    return KEPT["x"].sum().item()


def begin_to_add_up(x: torch.Tensor, waits: bool) -> None:
    KEPT["x"], KEPT["total"] = x, x.sum()
    if waits:
        torch.cuda.synchronize()


def get_total() -> float:
    return KEPT["total"].item()


def add_up_after(x: torch.Tensor, event: torch.cuda.Event) -> float:
    torch.cuda.current_stream().wait_event(event)
    return x.sum().item()


# ----------------------------------------------------------------------------- the tests
@ordered
def test_a_sent_tensor_is_used_after_work_of_the_stream_that_sends_it() -> None:
    x = torch.ones(N, device="cuda").mul_(2)
    assert peer()(add_up, x) == 2 * N


@ordered
@pytest.mark.parametrize("waits", [True, False])
def test_a_sent_tensor_that_a_side_stream_writes(waits: bool) -> None:
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.mul_(2)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    assert peer()(add_up, x) == (2 if waits else 1) * N
    torch.cuda.synchronize()


@ordered
@pytest.mark.parametrize("waits", [True, False])
def test_a_sender_that_writes_later(waits: bool) -> None:
    x = torch.ones(N, device="cuda")
    peer()(keep, x)
    x.mul_(2)
    if waits:
        torch.cuda.synchronize()
    assert peer()(add_up_kept) == (2 if waits else 1) * N
    torch.cuda.synchronize()


@ordered
@pytest.mark.parametrize("waits", [True, False])
def test_a_sender_that_writes_while_the_receiver_reads(waits: bool) -> None:
    x = torch.ones(N, device="cuda")
    peer()(begin_to_add_up, x, waits)
    x.mul_(2)
    torch.cuda.synchronize()
    assert peer()(get_total) == (1 if waits else 2) * N


@ordered
def test_a_shared_event() -> None:
    x, event = torch.ones(N, device="cuda"), torch.cuda.Event(interprocess=True)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.mul_(2)
        event.record()
    assert peer()(add_up_after, x, event) == 2 * N


@checked
@pytest.mark.parametrize("waits", [True, False])
def test_a_check_of_a_tensor_that_is_sent_before_it_is_written(waits: bool) -> None:
    from torchdevice_cuda import StreamRaceError

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(N, device="cuda")
    if waits:
        torch.cuda.current_stream().wait_stream(side)
        assert peer()(add_up, x) == N
        return
    with pytest.raises(StreamRaceError, match=r"on the default stream\) while .* on stream"):
        peer()(add_up, x)
