"""The translation core without an activation: over drivers that are not in place, on tensors that are real."""

from __future__ import annotations

from typing import Any

from drivers.toy import ToyDriver

from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.report import Counters
from torchdevice_cuda.settings import Settings
from torchdevice_cuda.translate.core.context import Context


class Apart(ToyDriver):
    """A driver whose GPU has memory of its own: torch's ``meta`` device, which every build has."""

    name = "apart"
    device_type = "meta"
    redirects_by_default = True
    traits = Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.REDIRECTS | Trait.DISGUISED | Trait.PARTIAL


def context_of(kind: type[ToyDriver] = ToyDriver, counters: Counters | None = None, **chosen: Any) -> Context:
    """Create the context of patches for a driver of this kind and these settings."""
    settings = Settings(**chosen)
    return Context(kind(settings, "a test"), settings, lambda name, call: lambda: None, counters)
