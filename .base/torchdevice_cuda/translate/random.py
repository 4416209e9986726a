"""``torch.Generator`` for CUDA."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..drivers import Driver
from .devices import as_device
from .patches import Editor, patch

_Generator: type = torch._C.Generator
_device_of = _Generator.device.__get__


class CudaGenerator(_Generator):  # type: ignore[misc, valid-type]
    """A generator of the accelerator that says it is CUDA's when the program asks.

    To torch's C code it is a generator like any other.
    """

    _shown: torch.device

    @classmethod
    def on(cls, target: torch.device, shown: torch.device) -> CudaGenerator:
        """A new generator on ``target`` that says ``shown``."""
        made = cls.__new__(cls, target)
        made._shown = shown
        return made

    @classmethod
    def over(cls, generator: torch.Generator, shown: torch.device) -> torch.Generator:
        """The same generator, saying ``shown``; itself where its object is not laid out as is known.

        torch makes the object of a default generator itself, and of its own class. Two objects, it and a new one,
        exchange what they hold: one pointer each, which both name as ``_cdata``, so that nothing is guessed.
        """
        made = cls.on(_device_of(generator), shown)
        held = [ctypes.c_void_p.from_address(id(one) + object.__basicsize__) for one in (generator, made)]
        if [pointer.value for pointer in held] != [generator._cdata, made._cdata]:
            return generator
        held[0].value, held[1].value = held[1].value, held[0].value
        return made

    def clone_state(self) -> torch.Generator:
        """A new generator in the same state."""
        made = CudaGenerator.on(_device_of(self), self._shown)
        made.set_state(self.get_state())
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        _, _, *state = super().__reduce__()
        return (torch.Generator, (self._shown,), *state)


CudaGenerator.__name__ = CudaGenerator.__qualname__ = _Generator.__name__
CudaGenerator.__module__ = _Generator.__module__


def _generator_class(editor: Editor, original: type, masked: bool) -> type:
    """A class that is torch's for every test, and whose calls have their device translated."""
    translator = editor.translator

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

        def __call__(cls, device: Any = "cpu") -> torch.Generator:
            if translator.driver.device_type != "cuda" and str(device).startswith("cuda"):
                torch.cuda._lazy_init()
            # A generator that is asked for on the CPU serves CPU work (samplers): no policy moves it.
            asked = "cpu" if device is None else device
            named_cpu = isinstance(asked, (str, torch.device)) and torch.device(asked).type == "cpu"
            target = asked if named_cpu else translator.device(asked)
            if masked and not named_cpu and target.type == translator.accelerator:
                return CudaGenerator.on(target, torch.device("cuda", as_device(asked).index))
            return original(target)

    # Generators pickle as a call of ``torch.Generator``.
    namespace = {"__doc__": original.__doc__, "__module__": "torch", "__slots__": ()}
    return Meta(
        "Generator", (), namespace | {name: getattr(original, name) for name in dir(original) if name[0] != "_"}
    )


@patch("cpu", "mps")
def generators(editor: Editor, driver: Driver) -> None:
    """torch.Generator(device="cuda") needs CUDA's part of torch; it stays a class."""
    original = torch.Generator
    masked = driver.device_type == "mps" and editor.settings.identity == "cuda"
    editor.set(torch, "Generator", _generator_class(editor, original, masked))
