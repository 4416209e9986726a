"""Builds the device once before the tests that need it."""

from __future__ import annotations

import pytest

from torchdevice_cuda.native import build


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes")


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    try:
        build.library("cuda")
    except build.BuildError as error:
        pytest.skip(f"the native device cannot be built here: {error}")
