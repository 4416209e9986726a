"""``torch.distributed`` in a rehearsal of many ranks (``--world``): no other rank is there to meet."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_GROUPS = "torch.distributed.distributed_c10d"


def _is_simulated(context: Context) -> bool:
    return context.settings.world is not None and torch.distributed.is_available()


@patch(
    f"{_GROUPS}.rendezvous",
    f"{_GROUPS}._store_based_barrier",
    f"{_GROUPS}.ProcessGroupGloo",
    "torch.distributed.ProcessGroupGloo",
    traits=Trait.NATIVE,
)
def meeting(context: Context) -> None:
    """``init_process_group`` would wait for the other ranks of ``--world``, and Gloo connect to them."""
    if not _is_simulated(context) or context.driver.native is None:
        return
    from torch._C._distributed_c10d import HashStore
    from torch.distributed import distributed_c10d

    from ...distributed.simulated import SimulatedGloo, SimulatedGroup
    from ...rehearsal.network import Network

    world, profile = context.settings.world, context.settings.profile
    assert world is not None and profile is not None  # a rehearsal has a profile
    SimulatedGroup.world, SimulatedGroup.network = world, Network.of(profile, world)
    SimulatedGroup.native = context.driver.native
    size = world.size

    def rendezvous(url: str, rank: int = -1, world_size: int = -1, **_: Any) -> Iterator[tuple[Any, int, int]]:
        """Return a store of this process, the rank and the number of ranks."""
        own = int(os.environ.get("RANK", "0")) if rank < 0 else rank
        asked = int(os.environ.get("WORLD_SIZE", size)) if world_size < 0 else world_size
        if asked != size or not own < size:
            raise ValueError(
                f"the program is rank {own} of {asked}, but --world simulates {size} ranks; use --world {asked}, or "
                "run the program without torchrun and let it read RANK and WORLD_SIZE"
            )
        yield HashStore(), own, size

    editor = context.editor
    editor.set(distributed_c10d, "rendezvous", copy_metadata(rendezvous, vars(distributed_c10d)["rendezvous"]))
    editor.set(distributed_c10d, "_store_based_barrier", lambda *_, **__: None)
    for owner in (distributed_c10d, torch.distributed):
        if hasattr(owner, "ProcessGroupGloo"):
            editor.set(owner, "ProcessGroupGloo", SimulatedGloo)


_NAMES = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list")


@patch(*(f"{owner}.{name}" for owner in (_GROUPS, "torch.distributed") for name in _NAMES), traits=Trait.NATIVE)
def objects(context: Context) -> None:
    """Objects are sent as tensors, which may be too large to be computed: every rank has this one's objects."""
    if not _is_simulated(context):
        return
    from torch.distributed import distributed_c10d

    def fill(gathered: list[Any], value: Any, group: Any) -> None:
        gathered[:] = [copy.deepcopy(value) for _ in range(torch.distributed.get_world_size(group))]

    def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
        fill(object_list, obj, group)

    def gather_object(
        obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None
    ) -> None:
        if object_gather_list is not None:
            fill(object_gather_list, obj, group)

    def broadcast_object_list(
        object_list: list[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None
    ) -> None:
        if not _is_root(src, group, group_src):
            _report_unknown("broadcast_object_list", src if group_src is None else group_src)

    def scatter_object_list(
        output: list[Any], inputs: Any = None, src: Any = None, group: Any = None, group_src: Any = None
    ) -> None:
        if _is_root(src, group, group_src):
            output[0] = inputs[torch.distributed.get_rank(group)]
        else:
            _report_unknown("scatter_object_list", src if group_src is None else group_src)

    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list):
        original: Function = getattr(distributed_c10d, function.__name__)
        for owner in (distributed_c10d, torch.distributed):
            context.editor.set(owner, function.__name__, copy_metadata(function, original))


def _is_root(src: int | None, group: Any, group_src: int | None) -> bool:
    if group_src is not None:
        return torch.distributed.get_rank(group) == group_src
    return torch.distributed.get_rank() == (src or 0)


def _report_unknown(name: str, root: int | None) -> None:
    from ...rehearsal.unknown import UncomputedValueWarning

    warnings.warn(
        f"{name}: this rehearsal does not run rank {root or 0}, so its objects are not known, and the list is "
        f"unchanged; to run that rank, set RANK={root or 0}",
        UncomputedValueWarning,
        stacklevel=3,
    )
