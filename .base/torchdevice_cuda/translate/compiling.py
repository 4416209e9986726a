"""``torch.compile``."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise


@patch("virtual")
def inductor(editor: Editor, driver: Driver) -> None:
    """Inductor takes ``cuda`` to mean Triton; graphs of the virtual GPU are compiled by its C++ backend."""
    editor.on_undo(driver.enable_compiler())


@patch("mps")
def kind_of_gpu(editor: Editor, driver: Driver) -> None:
    """Inductor wants one kind of GPU on a machine; it finds CUDA, which is ours, beside MPS, which is the real one."""
    editor.on_undo(driver.enable_compiler())
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        _settle_kind(editor, driver.device_type)
        return original(self, *args, **kwargs)

    editor.set(wrapper, "__call__", disguise(__call__, original))


def _settle_kind(editor: Editor, kind: str) -> None:
    """Have inductor find one kind of GPU, once: it keeps the answer, and every module of it holds the same function."""
    from torch._inductor import utils

    if kind not in utils.GPU_TYPES or utils.get_gpu_type.cache_info().currsize:
        return
    every = list(utils.GPU_TYPES)
    utils.GPU_TYPES[:] = [kind]
    try:
        utils.get_gpu_type()
    finally:
        utils.GPU_TYPES[:] = every
    editor.on_undo(utils.get_gpu_type.cache_clear)
