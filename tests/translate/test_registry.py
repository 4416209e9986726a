"""The registry: patches change what they say they do, a name of torch from one file, in an order that holds."""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import (
    CPU,
    EVERYWHERE,
    MPS,
    MPS_FAITHFUL,
    STOCK,
    VIRTUAL,
    VIRTUAL_ACCELERATE,
    ChildConfig,
    child,
    cuda_of_build,
    in_child,
)

from .test_triton import nvidia

PACKAGE = Path(__file__).resolve().parents[2] / "torchdevice_cuda"
#: Each with a compiler in use: some names are changed only then. And where a report alone is the reason.
COUNTED = tuple(place.with_settings(report="/dev/null") for place in (VIRTUAL, MPS_FAITHFUL))
#: And where torch.compile generates Triton, if that is installed.
TRITON = (VIRTUAL.with_settings(compile="triton"),) if importlib.util.find_spec("triton") else ()
PLACES = (
    CPU,
    VIRTUAL,
    VIRTUAL_ACCELERATE,
    MPS,
    MPS_FAITHFUL,
    MPS_FAITHFUL.with_settings(float64="cpu"),
    VIRTUAL.with_settings(rehearse="on", world="4"),
    *COUNTED,
    *TRITON,
)
#: From Python 3.12 on the interpreter tells of errors, and these stay as they are.
ONLY_BEFORE_MONITORING = "errors."
#: Patches with nothing to change in a CUDA build.
ONLY_IN_A_CPU_BUILD = ("version.",)
ONLY_WITH_TRITON = "compile_triton."
#: Torch 2.6 has no function for the environment of compile workers.
ONLY_WITHOUT_WORKER_ENVIRONMENT = "compile_triton.threads"
HAS_WORKER_ENVIRONMENT = not importlib.metadata.version("torch").startswith("2.6.")


#: Modules that are changed when they are imported, or at once if they have been.
LATE = (
    "torch._dynamo.variables.tensor",
    "torch._inductor.compile_fx",
    "torch._inductor.runtime.triton_heuristics",
    "torch.distributed.fsdp",
    "torch.nn.attention.flex_attention",
    "torch.utils.cpp_extension",
    "torch.utils.flop_counter",
    "torch.distributed.checkpoint",
    "torch.distributed.rpc",
)


def changes() -> list[list[str]]:
    """Every change of torch in this process: the target, the patch, its module, and whether the patch says so."""
    import torch

    from torchdevice_cuda import activation

    # The compiler's names are changed when it is first asked for something, be it nothing that it can compile.
    for name in LATE:
        importlib.import_module(name)
    with contextlib.suppress(Exception):
        torch._TorchCompileInductorWrapper("default", None, None)(None, [])
    nvidia()
    # Those of collectives with the first process group.
    with contextlib.suppress(RuntimeError):
        torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
        torch.distributed.destroy_process_group()
    # And how torch.Tensor makes tensors with the first type of CUDA's that is the default.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
    applied = activation._state.patches  # type: ignore[union-attr]
    patches = {patch.name: patch for patch in applied.patches}
    found = applied._editor.changes
    return [
        [change.target, change.by, patches[change.by].module, str(patches[change.by].covers(change.target))]
        for change in found
        if change.target.startswith(
            ("torch", "triton", "importlib", "multiprocessing", "sys", "threading", "traceback")
        )
    ]


def declared() -> list[list[str]]:
    """Every target that a patch declares, whatever the driver, with the patch and whether it stands for several."""
    from torchdevice_cuda.translate.patches import registered

    return [[target, patch.name, str("<" in target)] for patch in registered() for target in patch.targets]


@functools.cache
def everything() -> dict[str, list[list[str]]]:
    """Return the changes by place: of the first in the order of a program, of the others after all imports, once."""
    where = [PLACES[0], *(dataclasses.replace(place, preloaded=LATE) for place in PLACES[1:])]
    return {str(place): in_child(changes, place) for place in where}


@pytest.mark.native
@pytest.mark.mps
def test_each_name_of_torch_is_changed_from_one_file() -> None:
    files = collections.defaultdict(set)
    for rows in everything().values():
        for target, _, module, _ in rows:
            files[target].add(module)
    assert len(files) > 300
    assert {target: modules for target, modules in files.items() if len(modules) > 1} == {}


@pytest.mark.native
@pytest.mark.mps
@pytest.mark.parametrize("where", [str(place) for place in PLACES])
def test_a_patch_changes_what_it_says(where: str) -> None:
    assert [(by, target) for target, by, _, covered in everything()[where] if covered != "True"] == []


@pytest.mark.native
@pytest.mark.mps
def test_declared_names_are_changed() -> None:
    seen = {(target, by) for rows in everything().values() for target, by, _, _ in rows}
    said = in_child(declared, STOCK.when("after"))
    if hasattr(sys, "monitoring"):
        said = [row for row in said if not row[1].startswith(ONLY_BEFORE_MONITORING)]
    if cuda_of_build():
        said = [row for row in said if not row[1].startswith(ONLY_IN_A_CPU_BUILD)]
    if HAS_WORKER_ENVIRONMENT:
        said = [row for row in said if not row[1].startswith(ONLY_WITHOUT_WORKER_ENVIRONMENT)]
    if not TRITON:
        said = [row for row in said if not row[1].startswith(ONLY_WITH_TRITON)]
    assert [row for row in said if row[2] == "False" and (row[0], row[1]) not in seen] == []


def undescribed() -> list[str]:
    from torchdevice_cuda.translate.patches import registered

    return [patch.name for patch in registered() if not patch.why.endswith(".")]


def test_every_patch_says_why() -> None:
    assert in_child(undescribed, STOCK.when("after")) == []


def traits() -> dict[str, list[str]]:
    """Return the traits that patches ask for, and those that drivers and the policy have."""
    from torchdevice_cuda import settings
    from torchdevice_cuda.drivers.cpu.driver import CpuDriver
    from torchdevice_cuda.drivers.cuda.driver import CudaDriver
    from torchdevice_cuda.drivers.mps.driver import MpsDriver
    from torchdevice_cuda.drivers.traits import NONE, Trait
    from torchdevice_cuda.drivers.virtual.driver import VirtualDriver
    from torchdevice_cuda.translate.patches import registered

    asked, had = NONE, Trait.ACCELERATES | Trait.COUNTED | Trait.TRITON_CODE  # which the settings turn on
    for patch in registered():
        asked |= patch.traits | patch.without
    chosen = settings.load({"emulate_mps": True})
    for driver in (CpuDriver, CudaDriver, VirtualDriver, MpsDriver):
        had |= driver(chosen, "").traits
    groups = {"asked": asked, "had": had, "all": ~NONE}
    return {group: [str(trait.name) for trait in Trait if trait in traits] for group, traits in groups.items()}


def test_no_trait_is_idle() -> None:
    found = in_child(traits, STOCK.when("after"))
    assert found["asked"] == found["had"] == found["all"]


#: What tells one driver from another, by an attribute of it or of the translator.
OF_DRIVERS = {"name", "device_type", "accelerator"}


def comparisons_of_drivers(function: ast.AST) -> Iterator[str]:
    """Comparisons of a driver's name or device type with a text, also by a local name."""

    def is_of_driver(node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in local
        owner = ast.unparse(node.value).rpartition(".")[2] if isinstance(node, ast.Attribute) else ""
        return owner in ("driver", "translator") and isinstance(node, ast.Attribute) and node.attr in OF_DRIVERS

    local: set[str] = set()
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            local |= {ast.unparse(one) for one, value in pairs if is_of_driver(value)}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Constant) for side in sides) and any(map(is_of_driver, sides)):
                yield ast.unparse(node)


def test_no_patch_names_a_driver() -> None:
    """Not by its device type either: what a patch needs to know of a driver is a trait."""
    found = [
        f"{path.name}: {text}"
        for path in (PACKAGE / "translate" / "patches").rglob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        for text in comparisons_of_drivers(function)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "context.driver.name == 'cpu'",
        "translator.accelerator != 'cpu'",
        "one, kind = 1, context.driver.device_type\n(lambda: kind == 'cpu')",
    ],
)
def test_a_driver_that_is_named_is_seen(text: str) -> None:
    assert len(list(comparisons_of_drivers(ast.parse(text)))) == 1


# --------------------------------------------------------------------------------- order
def names_that_do_not_follow(settings: dict[str, Any]) -> list[str]:
    """Functions that a module bound before activation and that are not torch's afterwards."""
    import torch

    import torchdevice_cuda

    program = types.ModuleType("program")
    bound = {name: value for name, value in vars(torch).items() if inspect.isroutine(value) and name[0] != "_"}
    vars(program).update(bound)
    sys.modules["program"] = program
    torchdevice_cuda.activate(**settings)
    changed = [name for name, value in bound.items() if value is not getattr(torch, name)]
    assert len(changed) > 40
    return [name for name in changed if getattr(program, name) is not getattr(torch, name)]


@pytest.mark.parametrize("where", [CPU, pytest.param(MPS, marks=MPS.marks)], ids=str)
def test_names_bound_before_follow_whichever_patch_changes_them(where: ChildConfig) -> None:
    stock = ChildConfig("stock", order="after", environment=where.full_environment(), needs=where.native)
    assert in_child(names_that_do_not_follow, stock, dict(where.settings)) == []


@child(MPS.anew(), MPS_FAITHFUL.anew())
def test_the_device_is_announced_before_anything_asks_for_it() -> None:
    import torch

    assert torch._C._has_mps


@child(*EVERYWHERE)
def test_rows_name_files_that_exist() -> None:
    from torchdevice_cuda import activation

    rows = activation.changes()
    assert rows
    assert [row for row in rows if not (PACKAGE.parent / row.file).is_file()] == []


def is_announced() -> bool:
    import torch

    import torchdevice_cuda

    torchdevice_cuda.activate(driver="mps")
    torchdevice_cuda.deactivate()
    return bool(torch._C._has_mps)


@pytest.mark.mps
@pytest.mark.native
def test_deactivation_takes_the_announcement_back() -> None:
    stock = ChildConfig("stock", order="after", environment=MPS.full_environment(), needs=MPS.native)
    assert in_child(is_announced, stock) is False
