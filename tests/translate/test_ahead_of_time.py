"""AOTInductor, which makes libraries for a GPU that is really there."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child

pytestmark = child(VIRTUAL, seconds=300)


def _compiled(device: str) -> Any:
    model, x = torch.nn.Linear(4, 3).to(device).eval(), torch.randn(2, 4, device=device)
    exported = torch.export.export(model, (x,))
    with tempfile.TemporaryDirectory() as folder:
        package = torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/model.pt2")
        return torch._inductor.aoti_load_package(package)


def test_a_model_on_the_gpu_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="AOTInductor compiles ahead of time for a real GPU"):
        _compiled("cuda")


@pytest.mark.slow
def test_a_model_on_the_cpu_is_compiled() -> None:
    assert _compiled("cpu")(torch.randn(2, 4)).shape == (2, 3)
