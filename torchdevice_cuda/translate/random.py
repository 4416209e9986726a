"""``torch.Generator`` for CUDA."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch


def _generator_class(editor: Editor, original: type) -> type:
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
            return original(asked if named_cpu else translator.device(asked))

    namespace = {"__doc__": original.__doc__, "__module__": original.__module__, "__slots__": ()}
    return Meta(
        "Generator", (), namespace | {name: getattr(original, name) for name in dir(original) if name[0] != "_"}
    )


@patch("cpu", "mps")
def generators(editor: Editor, driver: Driver) -> None:
    """torch.Generator(device="cuda") needs CUDA's part of torch; it stays a class."""
    original = torch.Generator
    replacement = _generator_class(editor, original)
    editor.set(torch, "Generator", replacement)
