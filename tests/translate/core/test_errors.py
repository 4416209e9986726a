"""Errors of the accelerator that become CUDA's, and those that stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core.errors import Errors

SAME = "Expected all tensors to be on the same device"


class Memory:
    def translated(self, error: BaseException) -> BaseException:
        return torch.OutOfMemoryError("CUDA out of memory.") if "full" in str(error) else error


class Driver:
    memory = Memory()


def errors(words: bool, on_cpu: bool = False) -> Errors:
    driver: Any = Driver()
    return Errors(driver, words, lambda: on_cpu)


NAMED = f"{SAME}, mps:0 and cpu!"


@pytest.mark.parametrize("kind", [RuntimeError, TypeError, ValueError, IndexError])
def test_errors_of_torchs_core_are_translated(kind: type[Exception]) -> None:
    error = kind(NAMED, 2)
    assert errors(words=True).translated(error) is error
    assert error.args == (f"{SAME}, cuda:0 and cpu!", 2)
    error = kind(NAMED)
    errors(words=True, on_cpu=True).translated(error)
    assert error.args == (f"{SAME}, cpu and cpu!",)
    error = kind(NAMED)
    assert errors(words=False).translated(error) is error
    assert error.args == (NAMED,)


class Own(RuntimeError):
    """An error class of the program."""


@pytest.mark.parametrize("error", [Own(NAMED), KeyError(NAMED), RuntimeError(), RuntimeError(3), RuntimeError(b"mps")])
def test_other_errors_are_left_alone(error: Exception) -> None:
    before = error.args
    assert errors(words=True).translated(error) is error
    assert error.args == before


def test_memory_that_is_full() -> None:
    for words in (True, False):
        shown = errors(words).translated(RuntimeError("full"))
        assert isinstance(shown, torch.OutOfMemoryError)
    value = ValueError("full")
    assert errors(words=True).translated(value) is value
    plain = Errors(Driver(), words=True)  # type: ignore[arg-type]
    error = RuntimeError(NAMED)
    plain.translated(error)
    assert error.args == (f"{SAME}, cuda:0 and cpu!",)
