"""Requests: where each goes, what is kept of the answers, what is counted and logged, and who is asked for."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from drivers.toy import ToyDriver
from harness import in_fork

from torchdevice_cuda.report import Counters
from torchdevice_cuda.settings import Settings
from torchdevice_cuda.translate.core import requests
from torchdevice_cuda.translate.core.requests import Translator, as_device, cpu_is_meant, names_a_device

from . import Apart
from .asking import asked_by

CPU, META = torch.device("cpu"), torch.device("meta")


def translator(kind: type[ToyDriver] = ToyDriver, counters: Counters | None = None, **chosen: Any) -> Translator:
    settings = Settings(**chosen)
    return Translator(kind(settings, "a test"), settings, counters)


@pytest.fixture
def host() -> Translator:
    return translator()


@pytest.fixture
def apart() -> Translator:
    return translator(Apart)


# ------------------------------------------------------------------------------- reading
class Number:
    def __index__(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("asked", "device"),
    [
        ("cuda", "cuda"),
        ("cuda:1", "cuda:1"),
        (b"cuda:1", "cuda:1"),
        (torch.device("mps"), "mps"),
        (0, "cuda:0"),
        (2, "cuda:2"),
        (Number(), "cuda:2"),
        (numpy.int64(1), "cuda:1"),
        ("cpu", "cpu"),
    ],
)
def test_requests_are_read_as_torch_reads_them(asked: Any, device: str) -> None:
    assert as_device(asked) == torch.device(device)
    assert names_a_device(asked) is True


@pytest.mark.parametrize("asked", [True, 1.5, None, [], torch.float32, object()])
def test_arguments_that_are_no_requests(asked: Any) -> None:
    assert names_a_device(asked) is False
    with pytest.raises(Exception) as ours:  # noqa: PT011 (torch's own, whichever that is)
        as_device(asked)
    with pytest.raises(type(ours.value)) as torchs:
        torch.device(asked)
    assert str(ours.value) == str(torchs.value)


def test_a_tensor_is_a_number_to_torch_but_names_no_device() -> None:
    assert names_a_device(torch.tensor(1)) is False


# ---------------------------------------------------------------------------- on the host
@pytest.mark.parametrize("asked", ["cuda", "cuda:2", "mps", "mps:0", "cpu", torch.device("cuda", 1), 1, b"cuda"])
def test_on_the_host_everything_is_the_cpu(host: Translator, asked: Any) -> None:
    assert host.device(asked) == CPU
    assert host.device(asked) == CPU
    assert host.resolve(asked) == CPU


def test_other_devices_pass_through(host: Translator, apart: Translator) -> None:
    assert host.device("meta") == META
    assert apart.device("xpu:1") == torch.device("xpu", 1)


@pytest.mark.parametrize("asked", ["cuda:3", torch.device("cuda", 99), 3])
def test_a_device_that_is_not_there(host: Translator, asked: Any) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        host.device(asked)


def test_answers_are_kept(host: Translator) -> None:
    asked = torch.device("cuda", 1)
    for request in ("cuda", asked, "mps", "cpu", "meta", 1, b"cuda"):
        host.device(request)
    assert host.cache == {"cuda": CPU, asked: CPU, "mps": CPU, "cpu": CPU, "meta": META}
    assert host.on_gpu == {"cuda": CPU, asked: CPU, "mps": CPU}
    host.cache["cuda"] = META
    assert host.device("cuda") == META
    assert [host.names_accelerator(each) for each in ("cuda", asked, "mps", "cpu", "meta", 1, b"cuda")] == [
        *(True, True, True, False, False, True, True)
    ]


def test_subclasses_of_texts_name_the_accelerator_too(host: Translator) -> None:
    class Text(str):
        __slots__ = ()

    host.device(Text("cuda"))
    assert host.names_accelerator(Text("cuda"))
    assert host.names_accelerator(Text("mps")), "not asked before"
    assert not host.names_accelerator(Text("cpu"))


def test_toggling_requests_are_not_cached(apart: Translator) -> None:
    token = cpu_is_meant.set(True)
    try:
        assert apart.device("cpu") == CPU
        assert apart.device("cuda") == META
    finally:
        cpu_is_meant.reset(token)
    assert apart.cache == {}
    assert cpu_is_meant.get() is False
    assert apart.device("cpu") == META


# -------------------------------------------------------------------------------- policies
def test_the_policy_in_force() -> None:
    assert (translator().policy, translator().default_target) == ("faithful", None)
    assert (translator(Apart).policy, translator(Apart).default_target) == ("accelerate", META)
    faithful = translator(Apart, policy="faithful")
    assert (faithful.policy, faithful.default_target) == ("faithful", None)
    assert translator(allow_redirects=True).policy == "accelerate"
    assert translator(policy="accelerate").default_target is None, "there is nothing but the CPU"
    assert faithful.device("cpu") == CPU
    assert faithful.device("cuda") == META


def test_no_redirect_without_a_visible_device() -> None:
    class Hidden(Apart):
        def device_count(self) -> int:
            return 0

    made = translator(Hidden, policy="accelerate")
    assert (made.policy, made.default_target) == ("faithful", None)
    assert made.device("cpu") == CPU


# ---------------------------------------------------------------------------- redirections
def test_the_cpu_goes_to_the_accelerator_where_the_program_asks(apart: Translator) -> None:
    assert apart.device("cpu") == META
    assert "cpu" not in apart.cache, "who asks is looked at each time"
    assert asked_by("torch.optim", apart.device, "cpu") == CPU
    assert asked_by("torch.nn.modules.linear", apart.device, "cpu") == META
    assert apart.device("cuda") == META
    assert apart.names_accelerator("cuda")
    assert not apart.names_accelerator("cpu")


def test_the_toggle(apart: Translator) -> None:
    assert apart.device("cuda") == META
    assert apart.cache
    assert apart.device("cpu:-1") == CPU
    assert apart.override.on
    assert apart.cache == {}, "answers of before do not count"
    assert apart.device("cpu") == CPU
    assert apart.cache == {"cpu": CPU}
    assert apart.device("cpu:-1") == CPU
    assert not apart.override.on
    assert apart.cache == {}
    assert apart.device("cpu") == META


def test_a_module_asks_once(apart: Translator) -> None:
    """``nn.Linear(2, 2, device="cpu:-1")`` asks for its weight and for its bias."""

    def ask(times: int) -> None:
        module: Any = torch.nn.Identity()
        names = {"__name__": "torch.nn.modules.linear", "ask": apart.device}
        exec("def init(self, times):\n for _ in range(times):\n  ask('cpu:-1')", names)
        names["init"](module, times)

    ask(2)
    assert apart.override.on
    ask(3)
    assert not apart.override.on


# ------------------------------------------------------------------------------- no device
def test_targets_of_requests_without_a_device(apart: Translator, host: Translator) -> None:
    assert apart.applies_default_target() is True
    assert host.applies_default_target() is False
    assert asked_by("torch.optim", apart.applies_default_target) is False
    assert asked_by("torch.nn.init", apart.applies_default_target) is True
    with torch.device("cpu"):
        assert apart.applies_default_target() is False


def test_targets_of_requests_by_a_frame(apart: Translator, host: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = sys._getframe()
    assert apart.injects_for(frame) is True
    assert host.injects_for(frame) is False
    assert asked_by("torch.optim", lambda: apart.injects_for(sys._getframe(1))) is False
    with torch.device("cpu"):
        assert apart.injects_for(frame) is False
    monkeypatch.setattr(requests._worker, "_worker_info", object())
    assert apart.injects_for(frame) is False
    monkeypatch.undo()
    apart.forked = True
    assert apart.injects_for(frame) is False
    apart.forked = False
    logger = logging.getLogger("torchdevice_cuda")
    monkeypatch.setattr(logger, "isEnabledFor", lambda level: level >= logging.INFO)
    assert apart.injects_for(frame) is False, "each is logged"


def test_a_worker_that_prepares_data_stays_on_the_cpu(apart: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert apart.device("cpu") == META
    monkeypatch.setattr(requests._worker, "_worker_info", SimpleNamespace(id=0))
    assert apart.applies_default_target() is False
    assert apart.device("cpu") == CPU
    assert apart.device("cuda") == META


def test_a_forked_child_decides_anew(apart: Translator) -> None:
    apart.device("cuda")
    assert not apart.forked
    assert in_fork(
        lambda: [apart.forked, len(apart.cache), str(apart.device("cpu")), apart.applies_default_target()]
    ) == [*(True, 0, "meta", True)]
    host = translator()
    assert in_fork(lambda: host.forked) is False, "nothing was redirected"
    apart.driver.ask()
    assert in_fork(lambda: [str(apart.device("cpu")), apart.applies_default_target(), str(apart.device("cuda"))]) == [
        *("cpu", False, "meta")
    ]
    assert apart.device("cpu") == META


def test_fork_handlers_do_not_keep_it_alive() -> None:
    made = translator(Apart)
    reference = weakref.ref(made)
    del made
    gc.collect()
    assert reference() is None
    assert in_fork(lambda: 1) == 1


def test_staying_on_the_cpu(apart: Translator) -> None:
    apart.device("cuda")
    apart.stay_on_cpu()
    assert (apart.policy, apart.default_target, apart.cache) == ("faithful", None, {})
    assert apart.device("cpu") == CPU
    assert apart.device("cuda") == META


# --------------------------------------------------------------------------------- apparent devices
def test_apparent_devices_of_requests(apart: Translator, host: Translator) -> None:
    assert apart.tracks_apparent_devices is True
    assert apart.believes_in_cpu() is True
    apart.apparent_devices.add_cuda(torch.ones(1, device="meta"))
    assert apart.believes_in_cpu() is False
    assert (host.tracks_apparent_devices, host.believes_in_cpu()) == (False, False)
    assert translator(Apart, policy="faithful").tracks_apparent_devices is False


# --------------------------------------------------------------------------- counts and log
def test_requests_are_counted_with_their_place() -> None:
    counters = Counters()
    made = translator(Apart, counters)
    for _ in range(2):
        made.device("cuda:1"), made.device("cpu")
    line = sys._getframe().f_lineno - 1
    site = f"{__file__}:{line}"
    # Where the module is one of torch's, the program's own line is the one of whoever called it.
    assert set(counters.rows()) == {(2, "cuda:1", "cuda:0 (meta:0)", site), (2, "cpu", "cuda:0 (meta:0)", site)}
    assert made.cache == {}, "else the second would not be counted"
    made.count_unnamed(torch.ones(1, device="meta"))
    made.count_unnamed(torch.ones(1))
    made.count_unnamed("no tensor")
    asked_by("torch.optim", made.count_unnamed, torch.ones(1))
    unnamed = {(number, asked, given) for number, asked, given, _ in counters.rows() if asked == "no device"}
    assert unnamed == {(1, "no device", "cuda:0 (meta:0)"), (1, "no device", "cpu")}


def test_shown_devices(apart: Translator, host: Translator) -> None:
    assert host._shown(CPU) == "cpu"
    assert apart._shown(CPU) == "cpu"
    assert apart._shown(torch.device("meta", 1)) == "cuda:1 (meta:1)"
    apart.driver.set_device(2)
    assert apart._shown(torch.device("cuda")) == "cuda:2"
    assert apart._shown(torch.device("cuda", 1)) == "cuda:1"


def test_no_counting_without_a_report(host: Translator) -> None:
    host.count("cuda", CPU)
    host.count_unnamed(torch.ones(1))
    assert host.counters is None


def test_redirections_are_logged_once_a_place(apart: Translator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "torchdevice_cuda"):
        for _ in range(2):
            apart.device("cuda"), apart.device("cpu")
            line = sys._getframe().f_lineno - 1
            apart.device("meta")
        asked_by("torch.optim", apart.device, "cpu")
    assert caplog.messages == [f"{__file__}:{line}: cuda goes to meta", f"{__file__}:{line}: cpu goes to meta"]
    assert "cuda" not in apart.cache, "the next place is to be logged"
    assert apart.cache == {"meta": META}
    caplog.clear()
    apart.device("mps")
    assert caplog.messages == []
    assert apart.cache["mps"] == META
