"""torchvision, where its build does not match torch's.

timm imports torchvision for a few Python classes. A torchvision that was built for CUDA cannot load its operators
beside a torch built for the CPU, and then fails to import, because it describes two of them to torch's fake tensors
without looking whether they are there. With the two declared it imports, and all but its own operators works. Where
the builds match, this does nothing.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _operators_load() -> bool:
    spec = importlib.util.find_spec("torchvision")
    folders = (spec.submodule_search_locations if spec is not None else None) or ()
    libraries = [library for folder in folders for library in Path(folder).glob("_C*.so")]
    try:
        for library in libraries:
            torch.ops.load_library(str(library))
    except OSError:
        return False
    return bool(libraries)


if not _operators_load():
    torch.library.define("torchvision::nms", _NMS)
    torch.library.define("torchvision::qnms", _NMS)
