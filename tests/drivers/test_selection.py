"""Selection of a driver: the first that is available, or the requested one; and the messages about the others."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from torchdevice_cuda import settings
from torchdevice_cuda.drivers import installing, selection
from torchdevice_cuda.drivers.base import Offer
from torchdevice_cuda.drivers.unavailable import DevicesAlreadyInstalled, DriverUnavailable

from .toy import ToyDriver

TORCH_C = ModuleType("torch._C")
Offering = Callable[[settings.Settings, ModuleType], Offer]


class Table(dict[str, str]):
    """The drivers that there are, in the order in which ``auto`` tries them."""

    def add(self, name: str, offering: Offering) -> None:
        module = ModuleType(f"drivers_of_a_test_{name}")
        module.offer = offering  # type: ignore[attr-defined]
        sys.modules[module.__name__] = module
        self[name] = module.__name__

    def makes(self, name: str, reason: str = "it works") -> None:
        def make(chosen: settings.Settings, why: str) -> Any:
            made = ToyDriver(chosen, why)
            made.name = name
            return made

        self.add(name, lambda chosen, torch_c: Offer(make, reason))

    def lacks(self, name: str, reason: str, is_fault: bool = False) -> None:
        self.add(name, lambda chosen, torch_c: Offer(None, reason, is_fault))

    def fails(self, name: str, error: Exception) -> None:
        def offer(chosen: settings.Settings, torch_c: ModuleType) -> Offer:
            raise error

        self.add(name, offer)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    made = Table()
    monkeypatch.setattr(selection, "DRIVERS", made)
    monkeypatch.setenv("_TORCHDEVICE_HINTED", "")  # what a test sets is taken away after it
    del os.environ["_TORCHDEVICE_HINTED"]
    yield made
    for module in made.values():
        del sys.modules[module]


def chosen(driver: str = "auto", **values: Any) -> settings.Settings:
    return settings.Settings(driver=driver, **values)


# -------------------------------------------------------------------------------- auto
def test_auto_takes_the_first_that_works(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.lacks("one", "there is none")
    table.makes("two")
    table.makes("three")
    driver = selection.select(chosen(), TORCH_C)
    assert (driver.name, driver.reason, driver.passed_over) == ("two", "it works", ("not one: there is none",))
    assert capsys.readouterr() == ("", "")
    assert "_TORCHDEVICE_HINTED" not in os.environ


def test_faults_are_told_once(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.lacks("one", "there is none")
    table.lacks("two", "it is broken", is_fault=True)
    table.fails("three", OSError("no\n  file"))
    table.fails("four", RuntimeError("two\nlines"))
    table.fails("five", RuntimeError())
    table.makes("six")
    driver = selection.select(chosen(), TORCH_C)
    faults = ["not two: it is broken", "not three: OSError: no file", "not four: two lines", "not five: RuntimeError: "]
    assert driver.passed_over == ("not one: there is none", *faults)
    said = capsys.readouterr()
    assert said.err == f"torchdevice_cuda: using the six driver, {'; '.join(faults)}\n"
    assert said.out == ""
    assert os.environ["_TORCHDEVICE_HINTED"] == str(os.getpid())
    selection.select(chosen(), TORCH_C)
    assert capsys.readouterr().err == said.err, "this process says it whenever it chooses"
    os.environ["_TORCHDEVICE_HINTED"] = "1"
    selection.select(chosen(), TORCH_C)
    assert capsys.readouterr().err == "", "a child of the one that said it does not"


def test_a_process_without_standard_error(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.lacks("one", "it is broken", is_fault=True)
    table.makes("two")
    monkeypatch.setattr(sys, "stderr", None)
    assert selection.select(chosen(), TORCH_C).name == "two"


def test_no_driver_works(table: Table) -> None:
    table.lacks("one", "there is none")
    table.fails("two", TypeError("what"))
    with pytest.raises(
        DriverUnavailable,
        match="^no driver works here; not one: there is none; not two: TypeError: what; run python .* --doctor$",
    ):
        selection.select(chosen(), TORCH_C)


def test_a_driver_is_asked_with_the_settings_and_torchs_core(table: Table) -> None:
    asked: list[Any] = []

    def offer(given: settings.Settings, torch_c: ModuleType) -> Offer:
        asked.append((given, torch_c))
        return Offer(ToyDriver, "it works")

    table.add("one", offer)
    wanted = chosen(devices=3)
    assert selection.select(wanted, TORCH_C).settings is wanted
    assert asked == [(wanted, TORCH_C)]


# ----------------------------------------------------------------------------- by name
def test_the_one_asked_for(table: Table) -> None:
    table.makes("one")
    table.makes("two", "it is there")
    driver = selection.select(chosen("two"), TORCH_C)
    assert (driver.name, driver.reason, driver.passed_over) == ("two", "asked for (it is there)", ())


def test_the_one_asked_for_cannot_be_had(table: Table) -> None:
    table.lacks("one", "there is none")
    table.fails("two", OSError("broken"))
    table.makes("three")
    for name, why in (("one", "there is none"), ("two", "OSError: broken")):
        with pytest.raises(DriverUnavailable, match=f"^driver '{name}' was asked for, but {why}$"):
            selection.select(chosen(name), TORCH_C)
    with pytest.raises(
        DriverUnavailable, match="^driver 'four' is not part of this version; allowed: one, two, three$"
    ):
        selection.select(chosen("four"), TORCH_C)


# ---------------------------------------------------------------------------- settings
def test_settings_that_do_not_act(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.makes("cuda")
    table.makes("cpu")
    with pytest.raises(DriverUnavailable, match="^--memory=.* is refused on the cuda driver: the GPU.s memory"):
        selection.select(chosen(memory=1 << 30), TORCH_C)
    with caplog.at_level(logging.INFO, "torchdevice_cuda"):
        selection.select(chosen("cpu", policy="accelerate"), TORCH_C)
    assert caplog.messages == ["--policy=accelerate has no effect on the cpu driver: the CPU is the only device"]


# -------------------------------------------------------------------- one that did not start
def test_the_next_after_one_that_did_not_start(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.lacks("one", "there is none")
    table.makes("two")
    table.lacks("three", "none either")
    table.makes("four")
    first = selection.select(chosen(), TORCH_C)
    after = selection.select_after(first, OSError("it died"), chosen(), TORCH_C)
    assert after.name == "four"
    assert after.passed_over == ("not one: there is none", "not two: OSError: it died", "not three: none either")
    assert capsys.readouterr().err == "torchdevice_cuda: using the four driver, not two: OSError: it died\n"


def test_one_asked_for_that_did_not_start(table: Table) -> None:
    table.makes("one")
    table.makes("two")
    wanted = chosen("one")
    driver, cause = selection.select(wanted, TORCH_C), RuntimeError("it died")
    with pytest.raises(DriverUnavailable, match="^driver 'one' was asked for, but it died$") as raised:
        selection.select_after(driver, cause, wanted, TORCH_C)
    assert raised.value.__cause__ is cause
    stays = DevicesAlreadyInstalled("two", "three")
    with pytest.raises(DevicesAlreadyInstalled) as same:
        selection.select_after(driver, stays, chosen(), TORCH_C)
    assert same.value is stays


# ----------------------------------------------------------------------- devices that stay
class Native:
    """A compiled device that keeps account of what it is asked to install."""

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type
        self.installed: list[Any] = []

    def install(self, count: int, limits: list[int], is_accelerator: bool = True) -> None:
        self.installed.append((count, limits))


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(installing, "_limits", {})
    monkeypatch.setattr(installing, "_unseen", set())
    return Native("cuda")


def test_devices_are_installed_once(native: Any) -> None:
    installing.install(native, "virtual GPU", [])
    assert native.installed == []
    installing.install(native, "virtual GPU", [1 << 20, 1 << 20])
    installing.install(native, "virtual GPU", [1 << 20, 1 << 20])
    assert native.installed == [(2, [1 << 20, 1 << 20])]
    other: Any = Native("mps")
    installing.install(other, "emulated Apple GPU", [1 << 30])
    assert other.installed == [(1, [1 << 30])]


def test_devices_for_extensions_are_not_shown_later(native: Any) -> None:
    installing.install(native, "virtual GPU", [1 << 20], is_accelerator=False)
    installing.install(native, "virtual GPU", [1 << 20], is_accelerator=False)
    with pytest.raises(DevicesAlreadyInstalled, match="has 1 virtual GPU of 1,048,576 bytes for extensions, until"):
        installing.install(native, "virtual GPU", [1 << 20])


def test_other_devices_cannot_be_had(native: Any) -> None:
    installing.install(native, "virtual GPU", [1 << 20, 1 << 20])
    words = (
        "this process has 2 virtual GPUs of 1,048,576 bytes, until it ends, and cannot have {}; start another process"
    )
    for limits, asked in (([1 << 30], "1 virtual GPU of 1,073,741,824 bytes"), ([], "0 virtual GPUs")):
        with pytest.raises(DevicesAlreadyInstalled, match=words.format(asked)):
            installing.install(native, "virtual GPU", limits)
    assert issubclass(DevicesAlreadyInstalled, DriverUnavailable)
