"""Calls of groups of processes: collectives, stores, buckets of gradients, sharded modules and checkpoints."""

from __future__ import annotations

import datetime
import os
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import learning
import scripting
import torch
import values
from values import Given, numbers

Call = Callable[[str], Any]
DIST = torch.distributed
#: Nothing waits longer.
SOON = datetime.timedelta(seconds=5)


def collected(method: str, make: Callable[[Any, Any], list[Any]]) -> Call:
    """Return a call of a collective on a tensor and an output."""

    def call(d: str) -> Any:
        out = torch.zeros(3, device=d)
        getattr(DIST.group.WORLD, method)(*make(numbers(d, 3), out)).wait()
        return out

    return call


def couple() -> tuple[Any, Any]:
    """Two groups of two, which are each other's: in two threads of this process. They have the CPU alone."""
    store, found = DIST.HashStore(), {}

    def join(rank: int) -> None:
        made = DIST.ProcessGroup(DIST.PrefixStore("group", store), rank, 2)
        backend = DIST.ProcessGroupGloo(DIST.PrefixStore("backend", store), rank, 2, SOON)
        made._register_backend(torch.device("cpu"), DIST.ProcessGroup.BackendType.GLOO, backend)
        made._set_default_backend(DIST.ProcessGroup.BackendType.GLOO)
        found[rank] = made

    other = threading.Thread(target=join, args=(1,))
    other.start()
    join(0)
    other.join()
    return found[0], found[1]


def passed(any_source: bool = False) -> Call:
    """Return a tensor that one of two sends and the other receives; or, from anyone, who has sent it."""

    def call(d: str) -> Any:
        first, second = couple()
        got = torch.zeros(3)
        sent = first.send([numbers("cpu", 3)], 1, 0)
        received = second.recv_anysource([got], 0) if any_source else second.recv([got], 0, 0)
        received.wait()
        sent.wait()
        return received.source_rank() if any_source else got

    return call


def between(send: Callable[[Any, Any], Any], receive: Callable[[Any, Any], Any]) -> Call:
    """Return a call of point-to-point functions, one in each of two threads."""

    def call(d: str) -> Any:
        from torch.distributed import distributed_c10d

        first, second = couple()
        for each in (first, second):
            distributed_c10d._world.pg_group_ranks[each] = {0: 0, 1: 1}
        got = [torch.zeros(3)]
        other = threading.Thread(target=lambda: receive(got, second))
        other.start()
        send([numbers("cpu", 3)], first)
        other.join()
        for each in (first, second):
            del distributed_c10d._world.pg_group_ranks[each]
        return got

    return call


def store() -> Any:
    made = DIST.HashStore()
    made.set("a", "b")
    return made


def batched(op: Any, x: Any, peer: int, group: Any) -> None:
    for each in DIST.batch_isend_irecv([DIST.P2POp(op, x, peer, group)]):
        each.wait()


def joined_again(d: str) -> Any:
    """The group of all, left and joined once more."""
    backend = "gloo" if d == "cpu" else "cpu:gloo,cuda:nccl"
    DIST.destroy_process_group()
    DIST.init_process_group(backend, store=DIST.HashStore(), rank=0, world_size=1)
    return DIST.get_world_size()


def distributed(d: str) -> Any:
    scripting.KEPT.append(torch.nn.parallel.DistributedDataParallel(values.net(d)))
    return scripting.KEPT[-1]


def in_bucket(method: str, make: Given = lambda bucket, d: []) -> Call:
    """Return a method of a bucket of gradients, which a hook is given."""

    def call(d: str) -> Any:
        made, told = torch.nn.parallel.DistributedDataParallel(values.net(d)), []

        def hook(state: Any, bucket: Any) -> Any:
            value = getattr(bucket, method)(*make(bucket, d))
            told.append(value.clone() if isinstance(value, torch.Tensor) else value)
            return learning.hook(state, bucket)

        hook.__annotations__ = learning.hook.__annotations__
        made.register_comm_hook(None, hook)
        made(numbers(d, 3, 3)).sum().backward()
        return told

    return call


def nccl(d: str) -> Any:
    """Return the part of the group that the GPU's collectives are, after one."""
    DIST.all_reduce(numbers(d, 3))
    return DIST.group.WORLD._get_backend(torch.device(d))


def pooled(d: str) -> Any:
    """Return a pool of memory that collectives know, and do no longer."""
    backend = nccl(d)
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        held = torch.ones(256, device=d)
    backend.register_mem_pool(pool)
    backend.deregister_mem_pool(pool)
    return held.sum()


def sharded(d: str) -> tuple[Any, Any]:
    """Return a sharded module after a step, and its optimizer."""
    made = DIST.fsdp.FullyShardedDataParallel(values.net(d), device_id=0)
    held = torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.5)
    made(numbers(d, 3, 3)).sum().backward()
    held.step()
    return made, held


def of_sharded(call: Callable[[Any, Any, Any], Any]) -> Call:
    return lambda d: (lambda pair: call(DIST.fsdp.FullyShardedDataParallel, *pair))(sharded(d))


def rekeyed(d: str) -> Any:
    from torch.distributed.fsdp.fully_sharded_data_parallel import OptimStateKeyType

    held = values.sgd(d)
    held.step()
    make = DIST.fsdp.FullyShardedDataParallel.rekey_optim_state_dict
    return make(held.state_dict(), OptimStateKeyType.PARAM_NAME, values.net(d))


def kept(d: str) -> dict[str, Any]:
    return {"weight": numbers(d, 3)}


def checkpoint(d: str) -> str:
    """Return a folder with a checkpoint."""
    DIST.checkpoint.save(kept(d), checkpoint_id="kept")
    return "kept"


def reader(d: str) -> Any:
    return DIST.checkpoint.FileSystemReader(checkpoint(d))


def loading(d: str) -> tuple[Any, Any, Any, Any]:
    """Return a reader, a planner, its plan and what is loaded into."""
    source, planner, state = reader(d), DIST.checkpoint.DefaultLoadPlanner(), {"weight": torch.zeros(3, device=d)}
    known = source.read_metadata()
    source.set_up_storage_reader(known, True)
    planner.set_up_planner(state, known, True)
    return source, planner, planner.create_local_plan(), state


def read(d: str) -> Any:
    source, planner, plan, state = loading(d)
    source.read_data(plan, planner).wait()
    return state


def loaded(d: str) -> Any:
    state = {"weight": torch.zeros(3, device=d)}
    DIST.checkpoint.load(state, checkpoint_id=checkpoint(d))
    return state


def loaded_as_before(d: str) -> Any:
    state = {"weight": torch.zeros(3, device=d)}
    DIST.checkpoint.load_state_dict(state, reader(d))
    return state


def optimizer_loaded(d: str) -> Any:
    made, held = values.net(d), values.sgd(d)
    held.step()
    DIST.checkpoint.save({"optim": held.state_dict()}, checkpoint_id="held")
    load = DIST.checkpoint.load_sharded_optimizer_state_dict
    return list(load(made.state_dict(), "optim", DIST.checkpoint.FileSystemReader("held"))["optim"])


def gathered(gather: Callable[[list[Any]], Any], d: str) -> Any:
    out = [torch.zeros(3, device=d)]
    gather(out)
    return out


def consolidated(d: str) -> Any:
    """Return the state of a sharded optimizer after a step, on the process that asks for it."""
    made = DIST.optim.ZeroRedundancyOptimizer(values.trained(d).parameters(), torch.optim.SGD, lr=0.1, momentum=0.5)
    made.step()
    made.consolidate_state_dict(to=0)
    return made.state_dict()["state"]


def loaded_bytes(d: str) -> Any:
    """Something that is no tensor, out of a checkpoint that has it."""
    DIST.checkpoint.save({"x": "words"}, checkpoint_id="bytes")
    source, planner, state = DIST.checkpoint.FileSystemReader("bytes"), DIST.checkpoint.DefaultLoadPlanner(), {"x": ""}
    planner.set_up_planner(state, source.read_metadata(), True)
    planner.load_bytes(planner.create_local_plan().items[0], values.saved("words"))
    return state


def resolved(d: str) -> Any:
    planner = DIST.checkpoint.DefaultSavePlanner()
    planner.set_up_planner(kept(d), None, True)
    return planner.resolve_data(planner.create_local_plan().items[0])


OBJECTS: dict[str, values.Maker] = {
    "torch.distributed.Reducer": lambda d: distributed(d).reducer,
    "torch.distributed.Logger": lambda d: distributed(d).logger,
    "torch.distributed.ProcessGroupNCCL": nccl,
}  # fmt: skip
GIVEN: dict[str, Given] = {
    "torch.distributed.ProcessGroup.merge_remote_group": lambda x, d: {"store": DIST.HashStore(), "size": 1},
    "torch.distributed.ProcessGroup.unbox": lambda x, d: [x.boxed()],
    "torch.distributed.Work.exception": lambda x, d: [], "torch.distributed.Work.unbox": lambda x, d: [x.boxed()],
    "torch.distributed.Logger.set_construction_data_and_log": lambda x, d: ["Linear", [], -1, True, False, False],
    "torch.distributed.Logger.set_error_and_log": lambda x, d: ["as asked"],
    "torch.distributed.Logger.set_runtime_stats_and_log": lambda x, d: [],
    "torch.distributed.Reducer.prepare_for_forward": lambda x, d: [],
    "torch.distributed.Reducer.prepare_for_backward": lambda x, d: [[scripting.KEPT[-1].module(numbers(d, 3, 3))]],
    "torch.distributed.Reducer.set_logger": lambda x, d: [scripting.KEPT[-1].logger],
    **{f"torch.distributed.optim.{name}.add_param_group": lambda x, d: [{"params": [torch.nn.Parameter(numbers(d, 3))]}]
        for name in ("PostLocalSGDOptimizer", "ZeroRedundancyOptimizer")},
    **{f"torch.distributed.ProcessGroupNCCL.{name}": lambda x, d: [] for name in ("comm_split_count", "get_error")},
    "torch.distributed.ProcessGroupNCCL.perform_nocolor_split": lambda x, d: [torch.device(d, 0)],
}  # fmt: skip
CALLS: dict[str, Call] = {
    **{f"torch.distributed.ProcessGroup.{name}": collected(name, make) for name, make in {
        "allgather_coalesced": lambda x, out: [[[out]], [x]], "alltoall_base": lambda x, out: [out, x, [], []],
        "gather": lambda x, out: [[[out]], [x]], "scatter": lambda x, out: [[out], [[x]]],
    }.items()},
    "torch.distributed.ProcessGroup.send": passed(), "torch.distributed.ProcessGroup.recv": passed(),
    "torch.distributed.Work.source_rank": passed(any_source=True),
    **dict.fromkeys(("torch.distributed.send", "torch.distributed.recv"), between(
        lambda x, group: DIST.send(x[0], 1, group), lambda x, group: DIST.recv(x[0], 0, group))),
    **dict.fromkeys(("torch.distributed.isend", "torch.distributed.irecv"), between(
        lambda x, group: DIST.isend(x[0], 1, group).wait(), lambda x, group: DIST.irecv(x[0], 0, group).wait())),
    **dict.fromkeys(("torch.distributed.send_object_list", "torch.distributed.recv_object_list"), between(
        lambda x, group: DIST.send_object_list(x, 1, group, device=torch.device("cpu")),
        lambda x, group: DIST.recv_object_list(x, 0, group, device=torch.device("cpu")))),
    "torch.distributed.Store.get": lambda d: store().get("a"),
    "torch.distributed.Store.multi_get": lambda d: store().multi_get(["a"]),
    "torch.distributed.Store.wait": lambda d: store().wait(["a"], SOON),
    "torch.distributed.Store.queue_pop": lambda d: (lambda s: (s.queue_push("q", "x"), s.queue_pop("q"))[1])(store()),
    "torch.distributed.FileStore": lambda d: DIST.FileStore(tempfile.mktemp(dir="."), 1),
    "torch.distributed.TCPStore": lambda d: DIST.TCPStore("localhost", 0, 1, True, timeout=SOON,
        wait_for_workers=False),
    "torch.distributed.Logger": lambda d: DIST.Logger(distributed(d).reducer),
    **{f"torch.distributed.GradBucket.{name}": in_bucket(name) for name in ("buffer", "index", "is_last", "parameters",
        "gradients")},
    "torch.distributed.GradBucket.set_buffer": in_bucket("set_buffer", lambda bucket, d: [bucket.buffer() * 2]),
    "torch.distributed.P2POp": lambda d: DIST.P2POp(DIST.isend, numbers(d, 3), 0),
    "torch.distributed.batch_isend_irecv": between(lambda x, group: batched(DIST.isend, x[0], 1, group),
        lambda x, group: batched(DIST.irecv, x[0], 0, group)),
    "torch.distributed.ProcessGroupGloo.create_device": lambda d: DIST.ProcessGroupGloo.create_device(
        hostname="localhost"),
    **{f"torch.distributed.ProcessGroupNCCL.{name}": pooled for name in ("register_mem_pool",
        "deregister_mem_pool")},
    "torch.distributed.init_device_mesh": lambda d: str(DIST.init_device_mesh(torch.device(d).type, (1,)).mesh),
    "torch.distributed.init_process_group": joined_again,
    "torch.distributed.gather": lambda d: gathered(lambda out: DIST.gather(numbers(d, 3), out), d),
    "torch.distributed.all_gather": lambda d: gathered(lambda out: DIST.all_gather(out, numbers(d, 3)), d),
    "torch.distributed.rendezvous": lambda d: next(iter(DIST.rendezvous(
        f"file://{tempfile.mktemp(dir=os.getcwd())}", 0, 1)))[1:],
    "torch.distributed.optim.ZeroRedundancyOptimizer.state_dict": consolidated,
    "torch.distributed.checkpoint.DefaultLoadPlanner.lookup_tensor": lambda d: (lambda x: x[1].lookup_tensor(
        x[2].items[0].dest_index))(loading(d)),
    "torch.distributed.checkpoint.DefaultLoadPlanner.load_bytes": loaded_bytes,
    "torch.distributed.new_subgroups_by_enumeration": lambda d: DIST.new_subgroups_by_enumeration([[0]])[0].size(),
    "torch.distributed.scatter": lambda d: (lambda x: (DIST.scatter(x, [numbers(d, 3)]), x)[1])(torch.zeros(3,
        device=d)),
    **{f"torch.distributed.fsdp.FullyShardedDataParallel.{name}": of_sharded(call) for name, call in {
        "sharded_optim_state_dict": lambda kind, m, o: list(kind.sharded_optim_state_dict(m, o)["state"]),
        "full_optim_state_dict": lambda kind, m, o: kind.full_optim_state_dict(m, o),
        "flatten_sharded_optim_state_dict": lambda kind, m, o: kind.flatten_sharded_optim_state_dict(
            kind.sharded_optim_state_dict(m, o), m, o),
        "shard_full_optim_state_dict": lambda kind, m, o: kind.shard_full_optim_state_dict(
            kind.full_optim_state_dict(m, o), m),
        "scatter_full_optim_state_dict": lambda kind, m, o: kind.scatter_full_optim_state_dict(
            kind.full_optim_state_dict(m, o), m),
        "optim_state_dict": lambda kind, m, o: kind.optim_state_dict(m, o),
        "optim_state_dict_to_load": lambda kind, m, o: kind.optim_state_dict_to_load(m, o,
            kind.optim_state_dict(m, o)),
    }.items()},
    "torch.distributed.fsdp.FullyShardedDataParallel.rekey_optim_state_dict": rekeyed,
    "torch.distributed.checkpoint.DefaultLoadPlanner.create_local_plan": lambda d: len(loading(d)[2].items),
    "torch.distributed.checkpoint.DefaultLoadPlanner.resolve_tensor": lambda d: (lambda x: x[1].resolve_tensor(
        x[2].items[0]))(loading(d)),
    "torch.distributed.checkpoint.DefaultSavePlanner.resolve_data": resolved,
    "torch.distributed.checkpoint.FileSystemReader.read_data": read,
    "torch.distributed.checkpoint.FileSystemReader.read_metadata": lambda d: list(
        reader(d).read_metadata().state_dict_metadata),
    "torch.distributed.checkpoint.FileSystemReader.set_up_storage_reader": lambda d: (
        lambda r: r.set_up_storage_reader(r.read_metadata(), True))(reader(d)),
    "torch.distributed.checkpoint.load": loaded, "torch.distributed.checkpoint.load_state_dict": loaded_as_before,
    "torch.distributed.checkpoint.load_sharded_optimizer_state_dict": optimizer_loaded,
}  # fmt: skip
