"""Checks of streams for each test: the mode of its mark, or else that of the option."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from .. import activation, drivers, races, settings

#: A test with another mode than the option's.
MARK = "torchdevice_check_streams"


class StreamChecks:
    """Hooks of pytest."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Set the mode for the test."""
        mode = self._find_mode(item)
        if mode == races.OFF and self._mode == races.OFF:
            yield
            return
        _synchronize()
        activation.check_streams(mode)
        try:
            yield
        finally:
            activation.check_streams(self._mode)

    def _find_mode(self, item: pytest.Item) -> str:
        mark = item.get_closest_marker(MARK)
        if mark is None:
            return self._mode
        mode = mark.args[0] if mark.args else races.ERROR
        allowed = settings.BY_FIELD["check_streams"].choices
        if mode not in allowed:
            raise pytest.UsageError(f"{item.nodeid}: {MARK}({mode!r}) is unknown; allowed: {', '.join(allowed)}")
        return str(mode)


def _synchronize() -> None:
    """Wait for the work of earlier tests, which a test does not race with."""
    driver = drivers.installed()
    if driver is not None and driver.initialized():
        import torch

        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)
