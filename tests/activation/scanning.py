"""Scan the parts of torch that a program can reach, to find what activation changes and whether it is undone."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

Found = dict[tuple[str, object], Any]


def scan() -> Found:
    """Every attribute of torch's modules and main classes, and the entries of its tables, by where they are."""
    return dict(_entries())


def _entries() -> Iterator[tuple[tuple[str, object], Any]]:
    import torch
    import torch.jit._builtins
    from torch.utils._device import DeviceContext, _device_constructors

    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "torch" and module is not None:
            yield from (((name, key), value) for key, value in list(vars(module).items()))
    owners = (
        torch.Generator,
        torch.Tensor,
        torch.UntypedStorage,
        torch.amp.GradScaler,
        torch.amp.autocast,
        torch.nn.DataParallel,
        torch.nn.Module,
        torch.nn.utils.rnn.PackedSequence,
        torch.overrides.TorchFunctionMode,
        torch.storage._StorageBase,
        DeviceContext,
    )
    for owner in owners:
        yield from (((owner.__name__, key), value) for key, value in vars(owner).items())
    tables = {
        "device constructors": dict(enumerate(sorted(_device_constructors(), key=id))),
        "restorers": dict(enumerate(torch.serialization._package_registry)),
        "TorchScript's builtins": _builtins(),
    }
    if "torch._dynamo" in sys.modules:
        import torch._dynamo.trace_rules as rules
        import torch._dynamo.variables.torch as variables

        tables["dynamo's rules"] = rules.get_torch_obj_rule_map()
        tables["dynamo's constants"] = variables.constant_fold_functions
    for title, table in tables.items():
        yield from (((title, str(key)), value) for key, value in table.items())


def _builtins() -> dict[int, str]:
    """List TorchScript's builtins, without the operators of torch.ops, which are entered at their first use."""
    import torch
    from torch._ops import OpOverloadPacket

    spaces = [vars(space).values() for space in vars(torch.ops).values() if hasattr(space, "__dict__")]
    operators = {id(packet._op) for space in spaces for packet in space if isinstance(packet, OpOverloadPacket)}
    table = torch.jit._builtins._get_builtin_table()
    return {key: name for key, name in table.items() if key not in operators}


def changes(before: Found, after: Found) -> list[tuple[str, object]]:
    """List the differences between two scans, without modules that torch itself loads at their first use."""
    changed = [key for key in before if key not in after or after[key] is not before[key]]
    known = {owner for owner, _ in before}
    return changed + [key for key in after if key not in before and key[0] in known and not _lazy(after[key])]


def _lazy(value: Any) -> bool:
    """Modules, and operators of torch.ops."""
    return isinstance(value, types.ModuleType) or type(value).__module__ == "torch._ops"


def autocast_kernels() -> set[str]:
    """Return the operators that have a kernel for autocast on the CPU."""
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return {name for name in torch._C._dispatch_get_all_op_names() if has(name, "AutocastCPU")}
