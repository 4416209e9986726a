"""The layouts of arguments that `timing_layouts.py` notes beside a profile's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: The label of a call in a profile, followed by its number.
LABEL = "recorded call "


def describe(value: Any) -> Any:
    """Return a JSON value for an argument: a tensor is `{"sizes", "type"}`, with strides if it is not contiguous."""
    if isinstance(value, torch.Tensor):
        found: dict[str, Any] = {"sizes": list(value.shape), "type": str(value.dtype).removeprefix("torch.")}
        if value.layout == torch.strided and not value.is_contiguous():
            found["strides"] = list(value.stride())
        if not value.is_cuda:
            found["host"] = "pinned" if value.is_pinned() else "pageable"
        return found
    if isinstance(value, (list, tuple)):
        # Lists of many equal tensors (an optimizer's) are counted.
        items = [describe(each) for each in value]
        runs: list[list[Any]] = []
        for each in items:
            if isinstance(each, dict) and runs and runs[-1][1] == each:
                runs[-1][0] += 1
            else:
                runs.append([1, each])
        return {"runs": runs} if any(count > 1 for count, _ in runs) else items
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


class Notes(TorchDispatchMode):
    """Label every operator's call, and note its arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        arguments = {}
        for i, schema in enumerate(func._schema.arguments):
            arguments[schema.name] = args[i] if i < len(args) else (kwargs or {}).get(schema.name, schema.default_value)
        described = {name: describe(value) for name, value in arguments.items()}
        with torch.profiler.record_function(f"{LABEL}{len(self.calls)}"):
            self.calls.append([func.name(), described])
            results = func(*args, **(kwargs or {}))
        self.calls[-1].append(describe(results))
        return results


def list_calls(call: Callable[[], Any]) -> list[list[Any]]:
    """Return the calls of operators that launch kernels: name, arguments, results, count, and their kernels in all.

    A kernel is its name, how often it ran, and the nanoseconds of all its runs. Kernels of other code are calls without
    a name.
    """
    notes = Notes()
    with torch.profiler.profile() as profile:
        with notes:
            call()
        torch.cuda.synchronize()
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    on_host = [e for e in events if "CPU" in str(e.device_type()) and e.name().startswith(("aten::", LABEL))]
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for e in on_host:
        if e.name().startswith(LABEL):
            span = (e.start_ns(), e.start_ns() + e.duration_ns(), int(e.name().removeprefix(LABEL)))
            spans.setdefault(e.start_thread_id(), []).append(span)
    launches = {e.correlation_id(): e for e in on_host}
    found: dict[int, dict[str, list[Any]]] = {}
    for e in events:
        if "CUDA" not in str(e.device_type()) or not e.duration_ns() or e.name().startswith(("Optimizer.", LABEL)):
            continue
        launch, number = launches.get(e.linked_correlation_id()), -1
        if launch is not None:
            at = launch.start_ns()
            mine = spans.get(launch.start_thread_id(), [])
            number = next((number for start, end, number in mine if start <= at <= end), -1)
        kernel = found.setdefault(number, {}).setdefault(e.name()[:80], [e.name()[:80], 0, 0])
        kernel[1] += 1
        kernel[2] += e.duration_ns()
    calls: dict[str, list[Any]] = {}
    for number, kernels in sorted(found.items()):
        described = notes.calls[number] if number >= 0 else ["", {}, []]
        entry = calls.setdefault(repr((described, sorted(kernels))), [*described, 0, {}])
        entry[3] += 1
        for name, count, ns in kernels.values():
            known = entry[4].setdefault(name, [name, 0, 0])
            known[1] += count
            known[2] += ns
    return [[*entry[:4], list(entry[4].values())] for entry in calls.values()]
