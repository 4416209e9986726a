"""The context that the patches of one activation share: the traits in force, and the accelerator's devices."""

from __future__ import annotations

import contextvars

import torch
from drivers.toy import ToyDriver

from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.report import Counters
from torchdevice_cuda.translate.core.editor import Editor, dotted
from torchdevice_cuda.translate.core.entering import stays_on_cpu

from . import Apart, context_of


def test_traits_are_the_drivers_and_what_is_in_force() -> None:
    assert context_of().traits == ToyDriver.traits
    assert context_of(Apart, policy="faithful").traits == Apart.traits
    assert context_of(Apart).traits == Apart.traits | Trait.ACCELERATES | Trait.REDIRECTS

    class Real(ToyDriver):
        traits = Trait.SUBSTITUTE

    class Redirecting(Apart):
        traits = Trait.SUBSTITUTE

    assert context_of(Real).traits == Trait.SUBSTITUTE
    assert context_of(Real, Counters()).traits == Trait.SUBSTITUTE | Trait.COUNTED | Trait.REDIRECTS
    assert context_of(Redirecting).traits == Trait.SUBSTITUTE | Trait.ACCELERATES | Trait.REDIRECTS


def test_devices_of_the_accelerator() -> None:
    there = context_of(Apart)
    assert there.gpu == {torch.device("meta"), *(torch.device("meta", index) for index in range(3))}
    assert there.on_gpu(torch.ones(1, device="meta")) is True
    assert there.on_gpu(torch.ones(1)) is False

    class Hidden(Apart):
        def device_count(self) -> int:
            return 0

    assert context_of(Hidden).gpu == {torch.device("meta"), torch.device("meta", 0)}


def test_the_context_follows_the_settings() -> None:
    made = context_of(Apart, float64="cpu")
    assert (made.precision.choice, made.precision.accelerator) == ("cpu", torch.device("meta"))
    assert made.precision._partial
    assert not context_of().precision._partial
    error = RuntimeError("Expected all tensors to be on the same device, mps:0 and cpu!")
    assert "cpu and cpu" in str(made.errors.translated(error)), "all is the CPU's to the program"
    plain = RuntimeError("Expected all tensors to be on the same device, mps:0 and cpu!")
    assert "mps:0" in str(context_of().errors.translated(plain)), "nothing is in disguise"
    assert (made.left, made.wrapped) == (None, {})


def test_sent_tensors_do_not_stay_by_default() -> None:
    assert contextvars.Context().run(stays_on_cpu.get) is False


class Config:
    """A module of settings that keeps its values elsewhere."""

    values = {"a": 1}

    def __getattr__(self, name: str) -> object:
        return self.values[name]

    def __setattr__(self, name: str, value: object) -> None:
        self.values[name] = value  # type: ignore[assignment]


def test_settings_of_torch_are_put_back() -> None:
    editor, config = Editor(), Config()
    editor.configure(config, "a", 2)
    assert config.a == 2
    assert [change.target for change in editor.changes] == [dotted(config, "a")]
    editor.undo()
    assert config.a == 1
    assert Config.values == {"a": 1}


def test_a_name_for_people() -> None:
    editor, owner = Editor(), type("Owner", (), {})
    editor.set(owner, "name", 1, target="torch.shown")
    assert [change.target for change in editor.changes] == ["torch.shown"]
