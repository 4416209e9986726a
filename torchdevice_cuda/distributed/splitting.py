"""``split_group``: C++ would split the Gloo group inside a ``ProcessGroupNCCL``, and return a Gloo group."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import PrefixStore, ProcessGroup
from torch.distributed import distributed_c10d

from .communicator import Communicator

_Type = ProcessGroup.BackendType


def split(
    group: Any,
    backend: Communicator,
    ranks: Sequence[int],
    timeout: timedelta | None = None,
    opts: Any = None,
    group_name: str | None = None,
    group_desc: str | None = None,
    device_types: Sequence[torch.device] | None = None,
) -> Any:
    """Return the group of some ranks of a group; ``None`` for the others, which call this too."""
    ranks = sorted(ranks)
    description = group_desc or f"{group.group_desc}:split:{backend.comm_split_count()}"
    backend.count_split()
    if group.rank() not in ranks:
        return None
    name: Any = group_name or f"{group.group_name}:split:{ranks}"
    store = PrefixStore(f"{name}/", group.get_group_store())
    place = (ranks.index(group.rank()), len(ranks))
    made = ProcessGroup(store, *place)
    made._set_default_backend(_Type.NCCL)
    options = copy(opts or backend.options)
    options.group_name = name
    parents = options.global_ranks_in_group or range(group.size())
    options.global_ranks_in_group = [parents[rank] for rank in ranks]
    if timeout is not None:
        options._timeout = timeout
    for device in device_types or group._device_types:
        own = PrefixStore(f"{device.type}/", store)
        if group._get_backend(device) is backend or device.type == "cuda":
            made._register_backend(device, _Type.NCCL, type(backend)(own, *place, options))
        else:
            gloo = distributed_c10d.ProcessGroupGloo
            made._register_backend(device, _Type.GLOO, gloo(own, *place, timeout=options._timeout))
    made._set_group_name(name)
    made._set_group_desc(description)
    return made
