"""``torch.Stream`` and ``torch.Event``: the generic ones, for any device type."""

from __future__ import annotations

from ..drivers import Driver
from .patches import Editor, patch


@patch("cpu", "mps")
def streams_and_events(editor: Editor, driver: Driver) -> None:
    """torch's C constructors ask a CUDA guard, which a CPU build lacks; CUDA requests get the driver's streams."""
    import torch

    from ..drivers.handles import GenericEvent, GenericStream

    for owner in (torch, torch._C):
        editor.set(owner, "Stream", GenericStream)
        editor.set(owner, "Event", GenericEvent)
