"""``torch.utils.cpp_extension``: extensions with CUDA sources are built with torchdevice_cuda's toolkit."""

from __future__ import annotations

import logging
import os
from types import ModuleType
from typing import Any

import torch

from ..._compat import cuda_version
from ...cuda_cpp import jobs, toolkit
from ...drivers.traits import Trait
from ...settings.folders import SettingsError
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import copy_metadata

_MODULE = "torch.utils.cpp_extension"
_log = logging.getLogger("torchdevice_cuda")


def _set_variable(context: Context, name: str, value: str) -> None:
    """Set a variable of the environment, which the programs of a build inherit."""
    before = os.environ.get(name)

    def undo() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    context.editor.undone(f"os.environ[{name}]", undo)
    os.environ[name] = value


@patch(
    *(f"{_MODULE}.{name}" for name in ("CUDA_HOME", "_find_cuda_home", "_get_num_workers", "include_paths")),
    "os.environ[<name>]",
    traits=Trait.SUBSTITUTE,
)
def building(context: Context) -> None:
    """CUDA C++ sources are compiled for the host, with torchdevice_cuda's headers.

    The functions that build extensions get everything from the toolkit: its compiler, headers and libraries. So the
    toolkit is replaced instead of the functions. Its headers come before PyTorch's, some of which need libraries that
    are missing here.
    Many setup.py files look for ``nvcc`` themselves: by ``_find_cuda_home()``, the variable CUDA_HOME, or on the PATH.
    """

    def replace(module: ModuleType) -> None:
        try:
            folder = toolkit.provide(torch.version.cuda or cuda_version(torch.__version__))
        except (OSError, SettingsError) as error:
            _log.warning(
                "extensions with CUDA sources cannot be built, the toolkit cannot be had: %s; "
                "set TORCHDEVICE_CACHE_DIR to another folder",
                error,
            )
            return
        home = str(folder)
        original = module.include_paths

        def include_paths(*args: Any, **kwargs: Any) -> list[str]:
            paths: list[str] = original(*args, **kwargs)
            first = os.path.join(home, "include")
            return [first, *(path for path in paths if path != first)] if first in paths else paths

        def _find_cuda_home() -> str:
            return home

        workers = module._get_num_workers

        def _get_num_workers(verbose: bool) -> int | None:
            found: int | None = workers(verbose)  # MAX_JOBS, if it is set
            return jobs.count_jobs() if found is None else found

        context.editor.set(module, "_get_num_workers", copy_metadata(_get_num_workers, workers))
        context.editor.set(module, "CUDA_HOME", home, target=f"{_MODULE}.CUDA_HOME")
        context.editor.set(module, "_find_cuda_home", copy_metadata(_find_cuda_home, module._find_cuda_home))
        for name, value in (("CUDA_HOME", home), ("PATH", toolkit.search_path(folder))):
            _set_variable(context, name, value)
        context.editor.set(
            module, "include_paths", copy_metadata(include_paths, original), target=f"{_MODULE}.include_paths"
        )

    context.editor.on_undo(context.when_imported(_MODULE, context.editor.later(replace)))
