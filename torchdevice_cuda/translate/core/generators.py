"""Generators of the accelerator that report CUDA to the program: their device, states, and shared states."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ...drivers import Driver

_Generator: Any = torch._C.Generator
_CPU, _to = torch.device("cpu"), torch._C.TensorBase.to
device_of = _Generator.device.__get__


class CudaGenerator(_Generator):  # type: ignore[misc]
    """A generator of the accelerator that reports CUDA to the program.

    torch's C code sees an ordinary generator. On CUDA two generators can share one state (``graphsafe_set_state``),
    which no other backend supports: here the one whose state was set draws for both, and the other forwards to it.
    Draws from the other are not detected.
    """

    #: The driver, and whether tensors may be redirected to the accelerator; those of the latest activation.
    driver: Driver
    brings_home = False
    _shown: torch.device
    #: The generator whose state it shares, if any.
    _leader: CudaGenerator | None = None
    _living: weakref.WeakSet[CudaGenerator] = weakref.WeakSet()

    @classmethod
    def on(cls, target: torch.device, shown: torch.device) -> CudaGenerator:
        """Return a new generator on ``target`` that reports ``shown``."""
        made: CudaGenerator = _Generator.__new__(cls, target)
        made._shown = shown
        return made

    @classmethod
    def over(cls, generator: Any, shown: torch.device) -> Any:
        """Return the generator with ``shown`` as its device; the generator itself if its object's layout is unknown.

        torch creates the object of a default generator itself, with its own class, and C++ cannot create another object
        around the same generator. So this object and a new CPU generator exchange their contents: one pointer each,
        which both expose as ``_cdata``, so that the layout is verified.
        """
        made: CudaGenerator = _Generator.__new__(cls)
        made._shown = shown
        held = [ctypes.c_void_p.from_address(id(one) + object.__basicsize__) for one in (generator, made)]
        if [pointer.value for pointer in held] != [generator._cdata, made._cdata]:
            return generator
        held[0].value, held[1].value = held[1].value, held[0].value
        return made

    @property
    def own(self) -> Any:
        """Return torch's generator; among those that share a state, the one that draws."""
        return super() if self._leader is None else self._leader.own

    # ------------------------------------------------------------------- states
    def get_state(self) -> torch.Tensor:
        """Return seed and offset, in CUDA's format."""
        return self.driver.generator_state(self)

    def set_state(self, new_state: torch.Tensor) -> CudaGenerator:
        """Restore a state in CUDA's format, or in the device's own."""
        if self.brings_home and isinstance(new_state, torch.Tensor):
            new_state = _to(new_state, _CPU)
        self.driver.set_generator_state(self, new_state)
        return self

    def get_offset(self) -> int:
        """Return the offset in CUDA's units."""
        return self.driver.state_offset(self)

    def set_offset(self, offset: int) -> CudaGenerator:
        """Set the offset in CUDA's units."""
        self.driver.set_state_offset(self, offset)
        return self

    def initial_seed(self) -> int:
        """Return the initial seed."""
        return int(self.own.initial_seed())

    def seed(self) -> int:
        """Set a new seed from the system and return it."""
        return int(self.own.seed())

    def manual_seed(self, seed: int) -> CudaGenerator:
        """Set a new seed."""
        self.own.manual_seed(seed)
        return self

    def clone_state(self) -> CudaGenerator:
        """Return a new generator in the same state."""
        made = CudaGenerator.on(device_of(self), self._shown)
        made.set_state(self.get_state())
        return made

    # ------------------------------------------------------------------- sharing
    def graphsafe_get_state(self) -> CudaGenerator:
        """Return a generator that shares this one's state."""
        made = self.clone_state()
        made._follow(self._first())
        return made

    def graphsafe_set_state(self, state: Any) -> CudaGenerator:
        """Share the state of another from now on; generators that shared this one's state keep it."""
        if not isinstance(state, _Generator):
            raise TypeError(f"expected a Generator, but got {type(state).__name__}")
        if not isinstance(state, CudaGenerator):
            raise RuntimeError("Expected a CUDA Generator")
        other = state._first()
        if other._cdata == self._first()._cdata:
            return self
        self._leave()
        self.set_state(other.get_state())
        for one in [other, *other._followers()]:
            one._follow(self)
        return self

    def _first(self) -> CudaGenerator:
        """Return the generator that draws for this one."""
        return self if self._leader is None else self._leader

    def _followers(self) -> list[CudaGenerator]:
        return [one for one in self._living if one._leader is not None and one._leader._cdata == self._cdata]

    def _follow(self, leader: CudaGenerator) -> None:
        self._leader = leader
        self._living.add(self)

    def _leave(self) -> None:
        """Stop sharing; the others keep the state, and one of them draws for all."""
        if self._leader is not None:
            self._leader = None
            return
        followers = self._followers()
        if not followers:
            return
        first, *others = followers
        state = self.get_state()
        first._leader = None
        first.set_state(state)
        for one in others:
            one._follow(first)

    def __reduce__(self) -> tuple[Any, ...]:
        return torch.Generator, (self._shown,), (self.initial_seed(), self.get_offset(), self.get_state())

    def __setstate__(self, state: tuple[int, int | None, torch.Tensor]) -> None:
        self.set_state(state[2])


CudaGenerator.__name__ = CudaGenerator.__qualname__ = _Generator.__name__
CudaGenerator.__module__ = _Generator.__module__
