"""Process groups of one rank: what NCCL and Gloo accept, give and refuse."""

from __future__ import annotations

import datetime
import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist

from recorded.oracle.probing import kind, numbers, probe, raises, warned
from recorded.oracle.scenes import group, one


@probe()
def before_a_group() -> Any:
    return [
        dist.is_available(),
        dist.is_initialized(),
        dist.is_nccl_available(),
        dist.is_gloo_available(),
        dist.is_mpi_available(),
        dist.is_ucc_available(),
        raises(dist.get_rank),
        raises(lambda: dist.all_reduce(one())),
        raises(dist.get_backend),
        raises(dist.barrier),
        raises(dist.destroy_process_group),
        raises(
            lambda: dist.init_process_group("bogus", init_method=f"file://{tempfile.mkdtemp()}/x", rank=0, world_size=1)
        ),
        raises(lambda: dist.init_process_group("nccl", init_method="bogus://", rank=0, world_size=1)),
        raises(lambda: dist.init_process_group("nccl", rank=0, world_size=1, init_method="file:///tmp/y", store=3)),
    ]


@probe()
def facts_of_a_group() -> Any:
    group()
    pg = dist.group.WORLD
    return [
        dist.get_rank(),
        dist.get_world_size(),
        dist.get_backend(),
        type(pg).__name__,
        pg.name(),
        pg.size(),
        pg.rank(),
        dist.get_backend_config(),
        str(pg._device_types),
        pg.group_name,
        dist.get_process_group_ranks(pg),
        raises(lambda: dist.get_rank(3)),
        dist.get_group_rank(pg, 0),
        raises(lambda: dist.get_global_rank(pg, 4)),
        str(pg.bound_device_id),
        dist.distributed_c10d._get_default_timeout("nccl") == datetime.timedelta(minutes=10),
    ]


@probe()
def collectives() -> Any:
    group()
    x = one()
    out: list[Any] = []
    for work in (
        lambda: dist.all_reduce(x),
        lambda: dist.broadcast(x, 0),
        lambda: dist.reduce(x, 0),
        lambda: dist.barrier(),
    ):
        out.append([work(), numbers(x)])
    g = [torch.zeros(2, device="cuda")]
    dist.all_gather(g, x)
    flat = torch.zeros(2, device="cuda")
    dist.all_gather_into_tensor(flat, x)
    dist.reduce_scatter_tensor(flat, x * 2)
    dist.all_to_all_single(flat, x * 3)
    dist.scatter(flat, [x * 4], src=0)
    got = [torch.zeros(2, device="cuda")]
    dist.gather(x, got, dst=0)
    return [
        out,
        g,
        flat,
        got,
        raises(lambda: dist.all_to_all([flat], [x])),
        raises(lambda: dist.reduce_scatter(flat, [x])),
    ]


@probe()
def works() -> Any:
    group()
    x = one()
    w = dist.all_reduce(x, async_op=True)
    done = w.wait()
    torch.cuda.synchronize()
    f = w.get_future()
    return [
        type(w).__name__,
        done,
        w.is_completed(),
        type(f).__name__,
        numbers(f.wait()[0]) if isinstance(f.wait(), list) else numbers(f.wait()),
        raises(w.exception),
        raises(lambda: w.source_rank()),
        numbers(x),
        raises(lambda: w.result()),
    ]


@probe()
def reductions() -> Any:
    group()
    R = dist.ReduceOp  # noqa: N806
    return [
        [str(op), raises(lambda op=op: (lambda x: (dist.all_reduce(x, op), numbers(x))[1])(one()))]
        for op in (R.SUM, R.AVG, R.PRODUCT, R.MIN, R.MAX, R.BAND, R.BOR, R.BXOR)
    ] + [
        raises(lambda: dist.all_reduce(one(), "sum")),
        raises(lambda: dist.all_reduce(one().int(), R.BAND)),
        raises(lambda: dist.all_reduce(one(), dist._make_nccl_premul_sum(2.0))),
    ]


@probe()
def dtypes() -> Any:
    group()
    out = []
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.uint16,
    ):
        x = torch.ones(2, device="cuda").to(dtype)
        out.append(
            [
                str(dtype),
                raises(lambda x=x: dist.all_reduce(x)),
                raises(lambda x=x: dist.broadcast(x, 0)),
                raises(lambda x=x: dist.all_gather_into_tensor(torch.empty_like(x), x)),
            ]
        )
    return out


@probe(alone=True)
def to_oneself() -> Any:
    group()
    x = one()
    return [raises(lambda: dist.send(x, 0)), raises(lambda: dist.recv(x, 0)), raises(lambda: dist.isend(x, 0))]


@probe()
def gloo_with_tensors_of_the_gpu() -> Any:
    group("gloo")
    x = one()
    return [
        dist.get_backend(),
        raises(lambda: (dist.all_reduce(x), numbers(x))[1]),
        raises(lambda: dist.broadcast(x, 0)),
        raises(lambda: dist.all_gather([torch.zeros(2, device="cuda")], x)),
        raises(lambda: dist.all_reduce(torch.ones(2))),
        raises(lambda: dist.reduce_scatter_tensor(torch.zeros(2, device="cuda"), x)),
        raises(lambda: dist.all_to_all_single(x.clone(), x)),
        raises(lambda: dist.barrier()),
        raises(lambda: dist.all_reduce(x, dist.ReduceOp.AVG)),
        raises(lambda: dist.gather(x, [torch.zeros(2, device="cuda")])),
        raises(lambda: dist.scatter(x.clone(), [x])),
        raises(lambda: dist.reduce(x, 0)),
        raises(lambda: dist.all_reduce(x.half())),
        raises(lambda: dist.all_reduce(x.bool())),
    ]


@probe()
def both_backends() -> Any:
    group("cpu:gloo,cuda:nccl")
    x, y = one(), torch.ones(2)
    dist.all_reduce(x)
    dist.all_reduce(y)
    return [
        dist.get_backend(),
        dist.get_backend_config(),
        numbers(x),
        numbers(y),
        str(dist.group.WORLD._device_types),
        type(dist.group.WORLD._get_backend(torch.device("cuda"))).__name__,
        type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__,
        raises(lambda: dist.group.WORLD._get_backend(torch.device("meta"))),
    ]


@probe()
def no_backend_named() -> Any:
    group(None)
    return [
        dist.get_backend(),
        dist.get_backend_config(),
        str(dist.group.WORLD._device_types),
        raises(lambda: dist.all_reduce(one())),
        raises(lambda: dist.all_reduce(torch.ones(2))),
    ]


@probe(alone=True)
def bound_devices() -> Any:
    group(device_id=torch.device("cuda:0"))
    x = one()
    dist.all_reduce(x)
    return [
        str(dist.group.WORLD.bound_device_id),
        numbers(x),
        raises(lambda: dist.barrier(device_ids=[0])),
        raises(lambda: dist.barrier(device_ids=0)),
    ]


@probe()
def a_device_that_is_wrong() -> Any:
    return [
        raises(lambda: group(device_id=torch.device("cpu"))),
        raises(lambda: group(device_id=torch.device("cuda"))),
        raises(lambda: group(device_id="cuda:0")),
    ]


@probe()
def groups_within() -> Any:
    group()
    a = dist.new_group([0])
    b = dist.new_group([0], backend="gloo")
    x = one()
    dist.all_reduce(x, group=a)
    out = [
        dist.get_backend(a),
        dist.get_backend(b),
        a.group_name != b.group_name,
        numbers(x),
        dist.get_world_size(a),
        raises(lambda: dist.new_group([0, 0])),
        raises(lambda: dist.new_group([3])),
        raises(lambda: dist.new_group([])),
        raises(lambda: dist.all_reduce(x, group=3)),
        raises(lambda: dist.init_process_group("nccl")),
    ]
    dist.destroy_process_group(b)
    return [
        *out,
        raises(lambda: dist.all_reduce(torch.ones(1), group=b)),
        raises(lambda: dist.destroy_process_group(b)),
    ]


@probe()
def destroyed() -> Any:
    group()
    dist.all_reduce(one())
    dist.destroy_process_group()
    out = [dist.is_initialized(), raises(lambda: dist.all_reduce(one()))]
    group()
    x = one()
    dist.all_reduce(x)
    return [*out, numbers(x), dist.group.WORLD.group_name]


@probe()
def objects() -> Any:
    group()
    got: list[Any] = [None]
    dist.all_gather_object(got, {"a": torch.ones(1, device="cuda")})
    sent = [1, "x", one()]
    dist.broadcast_object_list(sent, 0)
    out: list[Any] = [None]
    dist.scatter_object_list(out, [5])
    there: list[Any] = [None]
    dist.gather_object("g", there)
    return [
        [str(got[0]["a"].device)],
        sent,
        out,
        there,
        raises(lambda: dist.broadcast_object_list("abc", 0)),
        raises(lambda: dist.all_gather_object([None, None], 1)),
    ]


@probe(alone=True)
def coalesced() -> Any:
    group()
    a, b = one(), one(3.0, 4.0)
    with dist._coalescing_manager(device=torch.device("cuda")):
        dist.all_reduce(a)
        dist.all_reduce(b)
    ops = [dist.P2POp(dist.isend, a, 0), dist.P2POp(dist.irecv, torch.zeros(2, device="cuda"), 0)]
    return [
        numbers(a),
        numbers(b),
        raises(lambda: [w.wait() for w in dist.batch_isend_irecv(ops)]),
        raises(lambda: dist.batch_isend_irecv([])),
        raises(lambda: dist.P2POp(dist.all_reduce, a, 0)),
        raises(lambda: dist.all_reduce_coalesced([a, b])),
    ]


@probe()
def deprecations_and_monitors() -> Any:
    group()
    return [
        warned(lambda: dist._reduce_scatter_base(torch.zeros(2, device="cuda"), one())),
        warned(lambda: dist._all_gather_base(torch.zeros(2, device="cuda"), one())),
        raises(lambda: dist.monitored_barrier()),
        warned(lambda: dist.barrier()),
        raises(lambda: dist.reduce_op.SUM),
    ]


@probe()
def in_a_graph() -> Any:
    group()
    x = one()
    dist.all_reduce(x)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2
        dist.all_reduce(y)
        y += 1
    x.fill_(4)
    g.replay()
    return numbers(y)


@probe()
def the_environment_of_a_launcher() -> Any:
    env = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    out = [raises(lambda: dist.init_process_group("nccl"))]
    os.environ.update(env)
    out.append(kind(lambda: dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=20))))
    os.environ["WORLD_SIZE"] = "x"
    return [
        *out,
        dist.is_initialized(),
        dist.is_torchelastic_launched(),
        raises(lambda: dist.init_process_group("nccl", timeout=3)),
    ]


@probe()
def stores() -> Any:
    s = dist.HashStore()
    s.set("a", "1")
    f = dist.FileStore(os.path.join(tempfile.mkdtemp(), "s"), 1)
    return [
        s.get("a").decode(),
        s.add("n", 3),
        s.num_keys(),
        s.delete_key("a"),
        raises(lambda: dist.HashStore().wait(["none"], datetime.timedelta(milliseconds=10))),
        f.add("k", 2),
        str(s.timeout),
        raises(lambda: dist.PrefixStore("p", s).set("b", "2")),
        s.check(["p/b"]),
    ]
