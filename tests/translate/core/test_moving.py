"""Moves whose device has been translated: what is copied, and what the program is to believe of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core.context import Context
from torchdevice_cuda.translate.core.entering import entering
from torchdevice_cuda.translate.core.moving import copying, crossing, mover

from . import Apart, context_of
from .asking import asked_by

CPU, META = torch.device("cpu"), torch.device("meta")
Move = Callable[..., torch.Tensor]


@pytest.fixture
def host() -> Context:
    made = context_of()
    made.driver.needs_init = False
    return made


@pytest.fixture
def apart() -> Context:
    return context_of(Apart)


def on_gpu() -> torch.Tensor:
    return torch.ones(2, device="meta")


# ------------------------------------------------------------------------------ arguments
def test_a_move_that_has_to_copy_says_so() -> None:
    """``to(device, dtype, non_blocking, copy)`` takes the copy argument in several forms."""
    assert copying((), {}) == ((), {"copy": True})
    assert copying((torch.int8,), {"copy": False}) == ((torch.int8,), {"copy": True})
    assert copying((torch.int8, True), {"memory_format": 1}) == (
        (torch.int8, True),
        {"memory_format": 1, "copy": True},
    )
    assert copying((torch.int8, False, False), {}) == ((torch.int8, False, True), {})
    assert copying((torch.int8, False, True), {}) == ((torch.int8, False, True), {})
    assert copying((torch.int8, False, "no"), {}) == ((torch.int8, False, "no"), {}), "torch refuses it"
    assert copying((torch.int8, False, False, "more"), {}) == ((torch.int8, False, True, "more"), {})
    assert copying((), {"copy": None}) == ((), {"copy": None})


# ----------------------------------------------------------------------------- on the host
def test_between_the_cpu_and_cuda_a_move_copies(host: Context) -> None:
    move, marks = mover(host), host.translator.marks
    one = torch.arange(2.0)
    there = move(one, True, CPU, (), {})
    assert there in marks
    assert there.data_ptr() != one.data_ptr()
    assert there.tolist() == one.tolist()
    assert move(there, True, CPU, (), {}) is there, "it is there already"
    back = move(there, False, CPU, (), {})
    assert back not in marks
    assert back.data_ptr() != there.data_ptr()
    assert move(one, False, CPU, (), {}) is one
    assert one not in marks


def test_a_conversion_on_the_way(host: Context) -> None:
    move, marks = mover(host), host.translator.marks
    one = torch.arange(2.0)
    there = move(one, True, CPU, (torch.int8,), {})
    assert (there.dtype, there in marks) == (torch.int8, True)
    again = move(there, True, CPU, (torch.int16,), {})
    assert (again.dtype, again in marks) == (torch.int16, True), "what was made there is there"
    assert again.detach() in marks, "and what shares its memory"
    back = move(one, False, CPU, (torch.int8,), {})
    assert back not in marks


def test_other_devices_are_torchs_business(host: Context) -> None:
    move = mover(host)
    there = move(torch.ones(2), True, META, (), {})
    assert there.device == META
    assert there not in host.translator.marks
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        move(torch.ones(2, device="meta"), True, CPU, (), {})


def test_the_device_comes_up_with_the_first_move_to_it(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    up: list[str] = []
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: up.append("up"))
    move, one = mover(host), torch.ones(2)
    host.driver.needs_init = True
    marked = host.translator.marks.add(torch.ones(2))
    move(marked, False, CPU, (), {})
    assert up == [], "a move away needs no device"
    move(one, True, CPU, (), {})
    assert up == ["up"]
    host.driver.needs_init = False
    move(one, True, CPU, (), {})
    assert up == ["up"]


def test_memory_that_is_full_is_the_current_devices(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    host.driver.set_device(2)
    asked: list[Any] = []

    def translated(error: BaseException, device: int = 0) -> BaseException:
        asked.append((str(error), device))
        return torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(host.driver.memory, "translated", translated)
    wide = torch.empty(1).expand(1 << 60)
    with pytest.raises(torch.OutOfMemoryError) as raised:
        mover(host)(wide, True, CPU, (), {})
    assert raised.value.__suppress_context__
    assert asked[0][1] == 2
    assert "allocate" in asked[0][0] or "size" in asked[0][0]


@pytest.mark.filterwarnings("ignore:.torch.jit.trace. is deprecated")
def test_torch_moves_traced_tensors(host: Context) -> None:
    move, seen = mover(host), []

    def function(x: torch.Tensor) -> torch.Tensor:
        there = move(x, True, CPU, (), {})
        seen.append(there in host.translator.marks)
        return there + 1

    torch.jit.trace(function, torch.ones(2), check_trace=False)
    assert seen == [False]
    function(torch.ones(2))
    assert seen == [False, True]


# ----------------------------------------------------------------- memory of the GPU's own
def test_torch_moves_under_faithful() -> None:
    faithful = context_of(Apart, policy="faithful")
    move, there = mover(faithful), on_gpu()
    assert move(there, True, META, (), {}) is there
    assert move(torch.ones(2), True, META, (), {}).device == META
    assert not faithful.translator.apparent_devices.cuda_named


def test_between_what_is_believed_to_be_the_cpu_and_cuda_a_move_copies(apart: Context) -> None:
    move, apparent_devices = mover(apart), apart.translator.apparent_devices
    one = on_gpu()
    apparent_devices.add_cpu(one)
    there = move(one, True, META, (), {})
    assert there is not one
    assert apparent_devices.is_known_cuda(there)
    assert not apparent_devices.is_cpu(there)
    assert apparent_devices.is_cpu(one)
    assert move(there, True, META, (), {}) is there
    back = move(there, False, META, (), {})
    assert back is not there
    assert apparent_devices.is_cpu(back)
    assert move(back, False, META, (), {}) is back
    fresh = move(torch.ones(2), False, META, (), {})
    assert fresh.device == META
    assert apparent_devices.is_cpu(fresh)


def test_a_move_elsewhere_changes_no_belief(apart: Context) -> None:
    move = mover(apart)
    host = torch.ones(2)
    assert move(host, False, CPU, (), {}) is host
    assert not apart.translator.apparent_devices.cuda_named
    assert host not in apart.translator.apparent_devices.known_cpu
    assert move(host, False, CPU, (torch.int8,), {}).dtype is torch.int8


def test_moves_between_devices(apart: Context) -> None:
    crosses, apparent_devices = crossing(apart), apart.translator.apparent_devices
    one, host = on_gpu(), torch.ones(2)
    assert (crosses(one, True), crosses(one, False)) == (True, False)
    apparent_devices.add_cuda(cuda := on_gpu())
    assert (crosses(cuda, True), crosses(cuda, False)) == (False, True)
    assert (crosses(host, True), crosses(host, False)) == (False, False)
    faithful = crossing(context_of(Apart, policy="faithful"))
    assert (faithful(one, True), faithful(one, False)) == (False, False)


# ------------------------------------------------------------------------------- entering
def test_host_data_enters_where_the_table_says(apart: Context) -> None:
    enter, host = entering(apart), torch.ones(2)
    there = enter(host)
    assert there.device == META
    assert there in apart.translator.apparent_devices.known_cpu
    assert enter(there) is there
    assert asked_by("torch.optim", enter, host) is host
    with torch.device("cpu"):
        assert enter(host) is host
    faithful = entering(context_of(Apart, policy="faithful"))
    assert faithful(host) is host


def test_entering_tensors_are_logged(apart: Context, caplog: pytest.LogCaptureFixture) -> None:
    enter = entering(apart)
    with caplog.at_level("INFO", "torchdevice_cuda"):
        enter(torch.ones(2))
    assert [text.partition(": ")[2] for text in caplog.messages] == ["host data goes to meta"]


class Refusing(torch.Tensor):
    """A tensor that the device refuses with an error of its choice."""

    error: Exception = TypeError("other")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch._C.TensorBase.to:
            raise cls.error
        return super().__torch_function__(function, types, args, kwargs or {})


def test_precision_that_is_refused_finds_another_way(apart: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    enter, host = entering(apart), torch.ones(2).as_subclass(Refusing)
    monkeypatch.setattr(apart.precision, "admit", lambda tensor: pytest.fail("it is no refusal"))
    with pytest.raises(TypeError, match="^other$"):
        enter(host)
    monkeypatch.setattr(Refusing, "error", TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS"))
    admitted = on_gpu()
    monkeypatch.setattr(apart.precision, "admit", lambda tensor: admitted if tensor is host else None)
    assert enter(host) is admitted
    assert admitted in apart.translator.apparent_devices.known_cpu
