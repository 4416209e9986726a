"""Calls whose kernels find something wrong, and calls to a device that is lost; a fork each, which it uses up.

``call ...``: what each raised, at once, in the wait behind it and in the next operator, and the first line on standard
error. ``after``: what each raised on a device that was lost.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

RECORD = "assertions-h200.json"
CUDA = "cuda"
Call = Callable[[], Any]


def c(*values: int) -> torch.Tensor:
    return torch.tensor(values, device=CUDA)


def ones(*size: int) -> torch.Tensor:
    return torch.ones(*size, device=CUDA)


def full(size: tuple[int, ...], value: float) -> torch.Tensor:
    return torch.full(size, value, device=CUDA)


CALLS: dict[str, Call] = {
    "index": lambda: ones(3)[c(5)],
    "index_neg": lambda: ones(3)[c(-4)],
    "index2d": lambda: ones(3, 4)[c(0, 1), c(5, 0)],
    "index_cpu_index": lambda: ones(3)[torch.tensor([5])],
    "index_half": lambda: ones(3).half()[c(5)],
    "index_empty_dim": lambda: ones(0)[c(0)],
    "index_put": lambda: ones(3).index_put_((c(7),), ones(1)),
    "index_put_acc": lambda: ones(3).index_put_((c(7),), ones(1), accumulate=True),
    "setitem_number": lambda: ones(3).__setitem__(c(7), 2.0),
    "index_put_out_of_place": lambda: ones(3).index_put((c(7),), ones(1)),
    "gather": lambda: ones(3).gather(0, c(9)),
    "gather_neg": lambda: ones(3).gather(0, c(-1)),
    "scatter_value": lambda: ones(3).scatter_(0, c(9), 1.0),
    "scatter_src": lambda: ones(3).scatter_(0, c(9), ones(1)),
    "scatter_add": lambda: ones(3).scatter_add_(0, c(9), ones(1)),
    "scatter_reduce_amax": lambda: ones(3).scatter_reduce_(0, c(9), ones(1), "amax"),
    "index_select": lambda: ones(3, 2).index_select(0, c(9)),
    "index_add": lambda: ones(3, 2).index_add_(0, c(9), ones(1, 2)),
    "index_add1": lambda: ones(3).index_add_(0, c(9), ones(1)),
    "index_copy": lambda: ones(3, 2).index_copy_(0, c(9), ones(1, 2)),
    "index_fill": lambda: ones(3, 2).index_fill_(0, c(9), 1.0),
    "take": lambda: ones(3).take(c(9)),
    "put": lambda: ones(3).put_(c(9), ones(1)),
    "embedding": lambda: F.embedding(c(9), ones(3, 2)),
    "embedding_bag_mean": lambda: F.embedding_bag(c(0, 9), ones(3, 2), c(0)),
    "embedding_bag_max": lambda: F.embedding_bag(c(0, 9), ones(3, 2), c(0), mode="max"),
    "nll": lambda: F.nll_loss(ones(2, 3), c(0, 5)),
    "nll_none": lambda: F.nll_loss(ones(2, 3), c(0, 5), reduction="none"),
    "nll2d": lambda: F.nll_loss(ones(1, 3, 2, 2), full((1, 2, 2), 9).long()),
    "cross_entropy": lambda: F.cross_entropy(ones(2, 3), c(0, 5)),
    "multi_margin": lambda: F.multi_margin_loss(ones(2, 3), c(0, 9)),
    "bce": lambda: F.binary_cross_entropy(full((2,), 2.0), ones(2)),
    "bce_target": lambda: F.binary_cross_entropy(full((2,), 0.5), ones(2) * 3),
    "bernoulli": lambda: torch.bernoulli(full((2,), 2.0)),
    "bernoulli_nan": lambda: torch.bernoulli(full((2,), float("nan"))),
    "bernoulli_p": lambda: ones(2).bernoulli_(2.0),
    "multinomial_neg": lambda: torch.multinomial(torch.tensor([0.5, -1.0], device=CUDA), 1),
    "multinomial_zero": lambda: torch.multinomial(torch.zeros(3, device=CUDA), 1, replacement=True),
    "multinomial_rows": lambda: torch.multinomial(torch.tensor([[0.5, 1.0], [0.0, 0.0]], device=CUDA), 3, True),
    "max_unpool2d": lambda: F.max_unpool2d(ones(1, 1, 1, 1), full((1, 1, 1, 1), 99).long(), 2),
    "max_unpool3d": lambda: F.max_unpool3d(ones(1, 1, 1, 1, 1), full((1, 1, 1, 1, 1), 99).long(), 2),
    "masked_scatter": lambda: ones(3).masked_scatter(ones(3) > 0, ones(1)),
    "one_hot": lambda: F.one_hot(c(0, 4), 3),
    "one_hot_neg": lambda: F.one_hot(c(-1), 3),
    "assert_async": lambda: torch._assert_async(torch.zeros(1, device=CUDA)),
    "assert_async_msg": lambda: torch.ops.aten._assert_async.msg(torch.zeros(1, device=CUDA), "my words"),
    "assert_async_two": lambda: torch._assert_async(torch.zeros(2, device=CUDA)),
    "bincount_neg": lambda: torch.bincount(c(1, -1)),
    "repeats_neg": lambda: c(1, 2).repeat_interleave(c(-1, 1)),
    "normal_neg": lambda: torch.normal(ones(2), -ones(2)),
    "poisson_neg": lambda: torch.poisson(-ones(2)),
    "segment_reduce_neg": lambda: torch.segment_reduce(ones(3), "sum", lengths=c(4, -1)),
}


class Scene:
    """Objects that exist before the device is lost."""

    def __init__(self) -> None:
        torch.cuda.init()
        self.x = torch.ones(4, 4, device=CUDA)
        self.pinned = torch.ones(4).pin_memory()
        self.event, self.done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.event.record()
        self.stream = torch.cuda.Stream()
        self.done.record()
        torch.cuda.synchronize()
        self.graph, y = torch.cuda.CUDAGraph(), ones(3)
        with torch.cuda.graph(self.graph):
            y.add_(1)
        torch.cuda.synchronize()


AFTER: dict[str, Callable[[Scene], Any]] = {
    "add": lambda s: s.x + 1,
    "add_": lambda s: s.x.add_(1),
    "view": lambda s: s.x.view(-1),
    "empty_cached": lambda s: torch.empty(2, device=CUDA),
    "empty_large": lambda s: torch.empty(1 << 28, device=CUDA),
    "zeros": lambda s: torch.zeros(2, device=CUDA),
    "event_new": lambda s: torch.cuda.Event(),
    "event_record": lambda s: s.event.record(),
    "event_query": lambda s: s.done.query(),
    "event_sync": lambda s: s.done.synchronize(),
    "event_elapsed": lambda s: s.event.elapsed_time(s.done),
    "event_wait": lambda s: s.event.wait(),
    "stream_new": lambda s: torch.cuda.Stream(),
    "stream_query": lambda s: torch.cuda.current_stream().query(),
    "stream_sync": lambda s: torch.cuda.current_stream().synchronize(),
    "stream_other_sync": lambda s: s.stream.synchronize(),
    "cpu": lambda s: s.x.cpu(),
    "to_cuda": lambda s: torch.ones(2).cuda(),
    "to_cuda_pinned": lambda s: s.pinned.to(CUDA, non_blocking=True),
    "cpu_nonblocking": lambda s: s.x.to("cpu", non_blocking=True),
    "item": lambda s: s.x.sum().item(),
    "str": lambda s: str(s.x),
    "pin_large": lambda s: torch.empty(1 << 24).pin_memory(),
    "memory_allocated": lambda s: torch.cuda.memory_allocated(),
    "memory_stats": lambda s: torch.cuda.memory_stats(),
    "mem_get_info": lambda s: torch.cuda.mem_get_info(),
    "props": lambda s: torch.cuda.get_device_properties(0),
    "set_device": lambda s: torch.cuda.set_device(0),
    "is_available": lambda s: torch.cuda.is_available(),
    "manual_seed": lambda s: torch.cuda.manual_seed(1),
    "rand": lambda s: torch.rand(2, device=CUDA),
    "svd": lambda s: torch.linalg.svd(s.x),
    "graph_replay": lambda s: s.graph.replay(),
    "sleep": lambda s: torch.cuda._sleep(10),
    "data_ptr": lambda s: s.x.data_ptr(),
    "nonzero": lambda s: s.x.nonzero(),
    "fill": lambda s: s.x.fill_(1),
    "cat": lambda s: torch.cat([s.x, s.x]),
    "half": lambda s: s.x.half(),
    "dropout": lambda s: F.dropout(s.x),
    "foreach": lambda s: torch._foreach_add([s.x], 1),
    "index_again": lambda s: s.x[c(9)],
}


def raised(call: Call) -> str:
    """Return the error's type, or ``ok``."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "ok"


def call(name: str) -> list[str]:
    """Return the errors of a call, of the synchronization after it, and of the next operator."""
    torch.ones(1, device=CUDA).cpu()
    found = CALLS[name]
    return [raised(found), raised(torch.cuda.synchronize), raised(lambda: ones(1))]


def after() -> dict[str, str]:
    """Return the errors of calls on a lost device, which none of them restores."""
    scene = Scene()
    scene.x[c(9)]
    assert raised(torch.cuda.synchronize) == "AcceleratorError"
    return {name: raised(lambda call=call: call(scene)) for name, call in AFTER.items()}


def in_fork(work: Callable[[], Any]) -> tuple[Any, str]:
    """Run it in a fork; return its result and its standard error."""
    with tempfile.TemporaryDirectory() as folder:
        said, answer = os.path.join(folder, "said"), os.path.join(folder, "answer")
        if not (pid := os.fork()):
            status = 1
            try:
                os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY, 0o600), 2)
                warnings.simplefilter("ignore")
                Path(answer).write_text(json.dumps(work()), encoding="utf-8")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        words = Path(said).read_text(encoding="utf-8")
        assert status == 0, (status, words)
        return json.loads(Path(answer).read_text(encoding="utf-8")), words


def run_call(name: str) -> dict[str, Any]:
    """Lose a device to a call."""
    answer, said = in_fork(lambda: call(name))
    return {"raised": answer, "line": said.split("\n", 1)[0]}


def find_assertion(line: str) -> tuple[str, str]:
    """Return the kernel, and what it asserts."""
    kernel, _, rest = line.partition(": block:")
    return kernel, rest.partition(" Assertion ")[2]


def find_difference(there: dict[str, Any], here: dict[str, Any], case: Any) -> str | None:
    """Compare errors, the kernel and what it asserts; which thread is first to say so is not known."""
    if "line" not in there:
        return None if there == here else "other errors"
    # A kernel is done at once on drivers: what a GPU says a moment later inside the call is said by the wait.
    late = ["ok", *there["raised"][1:]] if there["raised"][0] == "AcceleratorError" else None
    if here["raised"] not in (there["raised"], late):
        return "other errors"
    if find_assertion(there["line"]) != find_assertion(here["line"]):
        return "another assertion"
    return None


def list_cases() -> dict[str, Call]:
    return {**{f"call {name}": partial(run_call, name) for name in CALLS}, "after": lambda: in_fork(after)[0]}
