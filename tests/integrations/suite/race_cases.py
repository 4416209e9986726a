"""Tests with races; run by test_pytest_plugin.py in pytest's own processes."""

import pytest
import torch


def race() -> None:
    x = torch.ones(1 << 20, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        x.add_(1)


def test_with_the_option() -> None:
    race()


@pytest.mark.torchdevice_check_streams
def test_with_the_mark() -> None:
    race()


@pytest.mark.torchdevice_check_streams("off")
def test_that_may_race() -> None:
    race()


def test_after_a_race() -> None:
    """Its memory is that of the tests before."""
    torch.ones(1 << 20, device="cuda").add_(1)
