"""The stream interface that all drivers share: CUDA's numbers, and calls with one meaning on all drivers."""

from __future__ import annotations

import inspect

import pytest
from recorded import read_record

from torchdevice_cuda.drivers import streams
from torchdevice_cuda.drivers.host.streams import HostStreams
from torchdevice_cuda.drivers.mps.streams import MpsStreams
from torchdevice_cuda.drivers.streams import EventState, Streams, StreamState
from torchdevice_cuda.drivers.virtual.streams import NativeStreams

#: Expressions, and what an H200 answered.
FACTS = read_record("facts-cuda.json")
KINDS = (HostStreams, MpsStreams, NativeStreams)


def test_priorities_are_an_h200s() -> None:
    assert FACTS["c.Stream.priority_range()"][1] == [streams.LEAST_PRIORITY, streams.GREATEST_PRIORITY]


def test_an_event_is_nothing_until_it_is_recorded() -> None:
    assert EventState(True) == EventState(
        timing=True,
        device=None,
        handle=0,
        completes_at=0,
        recorded=False,
        native=None,
        held_by_host=False,
        external=False,
    )
    assert StreamState(0, 0, 0, 0).idle_at == 0, "no stream is busy before it was given something"


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_means_the_same_on_every_driver(kind: type[Streams]) -> None:
    """Defaults of arguments are the protocol's on every driver."""
    for name, method in inspect.getmembers(Streams, inspect.isfunction):
        theirs, ours = (inspect.signature(each).parameters for each in (method, getattr(kind, name)))
        if name != "__init__":
            assert {each: theirs[each].default for each in theirs} == {each: ours[each].default for each in ours}, name
