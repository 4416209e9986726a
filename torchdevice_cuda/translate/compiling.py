"""``torch.compile``."""

from __future__ import annotations

from ..drivers import Driver
from .patches import Editor, patch


@patch("virtual")
def inductor(editor: Editor, driver: Driver) -> None:
    """Inductor takes ``cuda`` to mean Triton; graphs of the virtual GPU are compiled by its C++ backend."""
    driver.enable_compiler()
