"""Configurations of child processes: the driver, the order of activation, and the environment."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .mac import VARIABLE

#: What is imported before activation, by the name of the order. Dynamo changes functions of torch when it is imported.
ORDERS: dict[str, tuple[str, ...]] = {
    "before": (),
    "after": ("torch",),
    "after dynamo": ("torch", "torch._dynamo"),
}
#: The compiled device that a driver stands on here, and the environment in which it does.
_NATIVE = {"virtual": "cuda", "mps": "mps"}
#: Operators that tests take for some that the Apple GPU lacks: it has had kernels for them since torch 2.14 or 2.15.
LACKING = {"TORCHDEVICE_EMULATE_MPS_LACKS": "heaviside,heaviside_,take,_linalg_eigh"}
_EMULATION = {"mps": {"TORCHDEVICE_EMULATE_MPS": "1", **LACKING}}
#: Settings that a fork has from the process that has activated with them.
_SHARED = {"driver", "policy", "devices"}
if VARIABLE in os.environ:
    _EMULATION["mps"][VARIABLE] = "1"


@dataclasses.dataclass(frozen=True)
class ChildConfig:
    """A kind of child process. Without settings nothing is activated in it."""

    name: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    order: str = "before"
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: A function of a file that is called after activation, before the tests, and its arguments.
    setup: Callable[..., object] | None = None
    setup_with: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: The compiled devices that it needs; those of its driver are known.
    needs: tuple[str, ...] = ()
    #: Only tests that may take long go there: the others have seen the same in another place.
    rare: bool = False
    #: What a process imports before activation that it is a fork of, as are others of its kind.
    preloaded: tuple[str, ...] = ()
    #: It is a new process, in which torch is imported when the order says so.
    new: bool = False

    @property
    def driver(self) -> str | None:
        """Return the driver that is activated, if one is."""
        return self.settings.get("driver")

    @property
    def native(self) -> tuple[str, ...]:
        """Return the compiled devices that have to be built before it can be used."""
        own = _NATIVE.get(self.driver or "")
        return self.needs if own is None else (own, *self.needs)

    @property
    def imports(self) -> tuple[str, ...]:
        """Return what is imported before activation."""
        return (*ORDERS[self.order], *self.preloaded)

    @property
    def forks(self) -> bool:
        """Return whether a fork that has imported torch will do: otherwise the functions import it themselves."""
        return not self.new and (bool(self.settings) or self.order != "before")

    @property
    def shares_activation(self) -> bool:
        """Return whether a fork of a process that has activated will do; one is kept for what many files ask for.

        Of an Apple GPU no fork has anything, nor is the policy ``accelerate`` the same there.
        """
        is_usual = self.settings.keys() <= _SHARED and not self.environment
        of_the_host = self.driver in ("cpu", "virtual") and self.settings.get("policy") != "accelerate"
        return self.forks and is_usual and of_the_host

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Return the markers of a test that runs here."""
        needed = {
            "gpu": self.driver == "cuda",
            "mps": "mps" in self.native,
            "native": bool(self.native),
            "slow": self.rare,
        }
        return [getattr(pytest.mark, name) for name, holds in needed.items() if holds]

    def with_settings(self, **settings: Any) -> ChildConfig:
        """Return a copy with other settings of ``activate()``."""
        return dataclasses.replace(self, name=self._named(settings), settings={**self.settings, **settings})

    def within(self, **environment: str) -> ChildConfig:
        """Return a copy with more variables in the environment."""
        changed = {**self.environment, **environment}
        return dataclasses.replace(self, name=self._named(environment), environment=changed)

    def when(self, order: str) -> ChildConfig:
        """Return a copy with activation at another time: a key of :data:`ORDERS`."""
        return dataclasses.replace(self, order=order, name=self.name if order == "before" else f"{self.name} {order}")

    def rarely(self) -> ChildConfig:
        """Return a copy whose tests are slow tests."""
        return dataclasses.replace(self, rare=True)

    def anew(self) -> ChildConfig:
        """Return a copy that runs in a new process."""
        return dataclasses.replace(self, new=True)

    def _named(self, more: Mapping[str, Any]) -> str:
        return " ".join([self.name, *(f"{key.lower()}={value}" for key, value in more.items())])

    def full_environment(self) -> dict[str, str]:
        """Return the variables in addition to those of every child."""
        return {**_EMULATION.get(self.driver or "", {}), **self.environment}

    def __str__(self) -> str:
        return self.name


@functools.cache
def cuda_of_build() -> str | None:
    """Return the CUDA that torch is built with; read, since importing torch is for children."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    version: str | None = runpy.run_path(str(Path(spec.origin).with_name("version.py")))["cuda"]
    return version


@functools.cache
def unbuilt(kind: str) -> str:
    """Why a compiled device cannot be had, empty if it can; building it takes longer than a test has."""
    from torchdevice_cuda.native import build

    try:
        build.libraries(kind)
    except build.BuildError as error:
        return str(error)
    return ""


def must_be_ready(place: ChildConfig) -> None:
    """Fail the present test where the place cannot be made: skipped, two thirds of the tests would be missed by nobody.

    A machine without a compiler deselects them: ``-m "not native"``.
    """
    for reason in map(unbuilt, place.native):
        if reason:
            pytest.fail(reason, pytrace=False)


def in_every_order(*places: ChildConfig, rarely: bool = False) -> tuple[ChildConfig, ...]:
    """Each of the places, with activation before torch is imported, after it, and after dynamo too.

    The first is a new process. A fork of one that has torch is where activation comes after it.
    ``rarely``: the later orders are among the slow tests.
    """
    every = ((place.anew() if order == "before" else place).when(order) for place in places for order in ORDERS)
    return tuple(place.rarely() if rarely and place.order != "before" else place for place in every)


#: Torch as it is. With another order than "before", torch (or dynamo) has been imported.
STOCK = ChildConfig("stock")
CPU = ChildConfig("cpu", {"driver": "cpu"})
#: The virtual GPU under the policy that is its default, and the other.
VIRTUAL = ChildConfig("virtual", {"driver": "virtual"})
VIRTUAL_ACCELERATE = ChildConfig("virtual accelerate", {"driver": "virtual", "policy": "accelerate"})
#: The Apple GPU, emulated, under the policy that is its default, and the other.
MPS = ChildConfig("mps accelerate", {"driver": "mps", "policy": "accelerate"})
MPS_FAITHFUL = ChildConfig("mps faithful", {"driver": "mps", "policy": "faithful"})
#: The Apple GPU with buffers of either storage mode, where a wrong access to one ends the process.
STORED = tuple(MPS_FAITHFUL.within(TORCHDEVICE_EMULATE_MPS_STORAGE=mode) for mode in ("shared", "private"))
BOTH_POLICIES = (MPS, MPS_FAITHFUL)
#: A real GPU, under the policy that is its default, and the other.
CUDA = ChildConfig("cuda accelerate", {"driver": "cuda", "policy": "accelerate"})
CUDA_FAITHFUL = ChildConfig("cuda faithful", {"driver": "cuda", "policy": "faithful"})
#: Everywhere that there is an accelerator to redirect to, under the one policy and under the other.
ACCELERATING = (MPS, VIRTUAL_ACCELERATE, CUDA)
FAITHFUL = (MPS_FAITHFUL, VIRTUAL, CUDA_FAITHFUL)
EVERYWHERE = (CPU, VIRTUAL, MPS, MPS_FAITHFUL)
