"""NCCL's errors and attributes in one process: those of an NVIDIA H200 for these calls (torch 2.11)."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import CPU, MPS_FAITHFUL, VIRTUAL, child

from .one_rank import begin, on_cuda

#: The type, and how its words begin.
REFUSALS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "of the CPU": (
        lambda: dist.all_reduce(torch.ones(2)),
        RuntimeError,
        "No backend type associated with device type cpu",
    ),
    "with gaps": (lambda: dist.all_reduce(on_cuda(4, 4)[:, :2]), ValueError, "Tensors must be contiguous"),
    "transposed": (lambda: dist.all_reduce(on_cuda(4, 3).t()), ValueError, "Tensors must be contiguous"),
    "sparse": (
        lambda: dist.all_reduce(torch.eye(3, device="cuda").to_sparse()),
        RuntimeError,
        "NCCL does not support all_reduce with sparse tensors. Please use dense tensors instead.",
    ),
    "short": (
        lambda: dist.all_reduce(on_cuda(2, dtype=torch.int16)),
        TypeError,
        "Input tensor data type is not supported for NCCL process group: Short",
    ),
    "short, moved": (
        lambda: dist.broadcast(on_cuda(2, dtype=torch.uint16), 0),
        TypeError,
        "Input tensor data type is not supported for NCCL process group: UInt16",
    ),
    "bits": (
        lambda: dist.all_reduce(on_cuda(2), op=dist.ReduceOp.BXOR),
        ValueError,
        "Cannot use ReduceOp.BXOR with NCCL",
    ),
    "average of booleans": (
        lambda: dist.all_reduce(on_cuda(2, dtype=torch.bool), op=dist.ReduceOp.AVG),
        TypeError,
        "Cannot use ReduceOp.AVG with boolean inputs",
    ),
    "average of eight bits": (
        lambda: dist.all_reduce(on_cuda(2).to(torch.float8_e4m3fn), op=dist.ReduceOp.AVG),
        dist.DistBackendError,
        "NCCL error in: ",
    ),
    "foreign eight bits": (
        lambda: dist.all_reduce(on_cuda(2).to(torch.float8_e4m3fnuz)),
        RuntimeError,
        "Unsupported Float8 type for NCCL reduction",
    ),
    "a factor of whole numbers": (
        lambda: dist.all_reduce(on_cuda(2, dtype=torch.int32), op=dist._make_nccl_premul_sum(0.5)),
        TypeError,
        "PreMulSum Data type must be half, float, bfloat16 or double",
    ),
    "room of another size": (
        lambda: dist.all_gather_into_tensor(on_cuda(5), on_cuda(2)),
        ValueError,
        "output tensor size must be equal to world_size times input tensor size",
    ),
    "room of another type": (
        lambda: dist.all_gather_into_tensor(on_cuda(2).half(), on_cuda(2)),
        TypeError,
        "output tensor must have the same type as input tensor",
    ),
    "gathered with gaps": (
        lambda: dist.all_gather([on_cuda(2)], on_cuda(4)[::2]),
        ValueError,
        "Tensors must be contiguous",
    ),
    "scattered to another size": (
        lambda: dist.reduce_scatter_tensor(on_cuda(3), on_cuda(2)),
        ValueError,
        "input tensor must be the same size as output size times world size",
    ),
    "scattered to another type": (
        lambda: dist.reduce_scatter_tensor(on_cuda(2).half(), on_cuda(2)),
        TypeError,
        "input tensor must be the same type as the output tensor.",
    ),
    "splits": (
        lambda: dist.all_to_all_single(on_cuda(3), on_cuda(3), [2], [3]),
        RuntimeError,
        "Split sizes doesn't match total dim 0 size",
    ),
    "gathered into another size": (
        lambda: dist.gather(on_cuda(2), [on_cuda(3)]),
        ValueError,
        "ProcessGroupNCCL::gather: invalid tensor size at index 0 (expected (2), got (3))",
    ),
    "scattered from another size": (
        lambda: dist.scatter(on_cuda(2), [on_cuda(3)]),
        ValueError,
        "ProcessGroupNCCL::scatter: invalid tensor size at index 0 (expected (2), got (3))",
    ),
    "from anyone": (
        lambda: dist.recv(on_cuda(2)),
        NotImplementedError,
        "ProcessGroupNCCL does not support recvAnysource",
    ),
    "a barrier on no device": (
        lambda: dist.barrier(device_ids=[7]),
        RuntimeError,
        "CUDA error: invalid device ordinal",
    ),
    "monitored": (
        lambda: dist.monitored_barrier(),
        ValueError,
        "monitored_barrier is only implemented for GLOO backend.",
    ),
    "without a device": (
        lambda: dist.split_group(split_ranks=[[0]]),
        RuntimeError,
        "No device associated with the default pg, not safe to split any process groups",
    ),
    "memory that NCCL knows": (
        lambda: dist.group.WORLD._get_backend(torch.device("cuda")).mem_allocator,
        RuntimeError,
        "NCCL mem allocator is not supported in this NCCL version",
    ),
    "options of somebody else": (
        lambda: dist.new_group(backend="nccl", pg_options=object()),
        AssertionError,
        "Expected backend_options argument to be of type ProcessGroupNCCL.Options",
    ),
}


@child(VIRTUAL)
def test_refusals() -> None:
    begin()
    wrong = {}
    for name, (call, kind, words) in REFUSALS.items():
        try:
            call()
        except Exception as error:
            if not isinstance(error, kind) or not str(error).startswith(words):
                wrong[name] = repr(error)[:200]
        else:
            wrong[name] = "nothing was raised"
    dist.destroy_process_group()
    assert wrong == {}


@child(CPU, VIRTUAL, MPS_FAITHFUL)
def test_attributes_of_a_group() -> None:
    group = begin()
    backend = group._get_backend(torch.device("cuda"))
    assert dist.is_nccl_available()
    assert dist.get_backend() == "nccl"
    assert dist.get_backend_config() == "cuda:nccl"
    assert type(backend) is dist.ProcessGroupNCCL
    assert type(backend).__module__ == "torch.distributed.distributed_c10d"
    assert (backend.name(), backend.rank(), backend.size()) == ("nccl", 0, 1)
    assert (backend.supports_splitting, backend.supports_coalescing, backend.comm_split_count()) == (True, True, 0)
    assert backend.options._timeout == datetime.timedelta(minutes=10)
    assert dist.ProcessGroupNCCL.get_runtime_nccl_version() == torch.cuda.nccl.version()
    mixed = dist.new_group(backend="cpu:gloo,cuda:nccl")
    assert mixed._get_backend(torch.device("cuda")).uid == backend.uid + 1
    assert dist.get_backend(mixed) == "cpu:gloo,cuda:nccl"
    for device in ("cpu", "cuda"):
        x = torch.ones(2, device=device)
        dist.all_reduce(x, group=mixed)
        assert x.tolist() == [1, 1]
    dist.destroy_process_group()


@child(CPU, VIRTUAL, MPS_FAITHFUL)
def test_no_backend_is_nccl() -> None:
    begin(None)
    assert "nccl" in dist.get_backend_config()
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [1, 1]
    dist.destroy_process_group()


@child(VIRTUAL, CPU)
def test_options() -> None:
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    options.config.max_ctas = 4
    twin = copy.deepcopy(options)
    twin.config.max_ctas = 8
    assert (options.config.max_ctas, twin.config.max_ctas, twin.is_high_priority_stream) == (4, 8, True)
    assert options.config.min_ctas == -(2**31)
    group = begin(pg_options=options, timeout=datetime.timedelta(seconds=20))
    assert group._get_backend(torch.device("cuda")).options is options
    assert options._timeout == datetime.timedelta(seconds=20)
    dist.destroy_process_group()


@child(VIRTUAL)
def test_split_groups() -> None:
    group = begin(device_id=torch.device("cuda", 0))
    assert group.bound_device_id == torch.device("cuda", 0)
    part = dist.split_group(split_ranks=[[0]])
    backend = part._get_backend(torch.device("cuda"))
    assert type(backend) is dist.ProcessGroupNCCL
    assert group._get_backend(torch.device("cuda")).comm_split_count() == 1
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x, op=dist.ReduceOp.AVG, group=part)
    assert x.tolist() == [1, 1]
    dist.destroy_process_group()


@child(VIRTUAL.with_settings(devices=2))
def test_a_group_that_is_bound_to_a_device() -> None:
    begin(device_id=torch.device("cuda", 0))
    with pytest.raises(dist.DistBackendError, match="not on device passed to init_process_group"):
        dist.all_reduce(torch.ones(2, device="cuda:1"))
    dist.destroy_process_group()


@child(VIRTUAL, CPU)
def test_gloo_takes_what_cuda_has() -> None:
    """A CPU build's Gloo has CUDA's kernels and nothing behind them: the process died."""
    begin("gloo")
    x = torch.ones(3, device="cuda")
    dist.all_reduce(x)
    dist.all_gather([y := torch.zeros(3, device="cuda")], x)
    dist.all_to_all_single(z := torch.zeros(3, device="cuda"), x)
    sparse = torch.eye(2, device="cuda").to_sparse()
    dist.all_reduce(sparse)
    assert (x.tolist(), y.tolist(), z.tolist(), sparse.to_dense().tolist()) == (
        [1] * 3,
        [1] * 3,
        [1] * 3,
        [[1, 0], [0, 1]],
    )
    dist.destroy_process_group()


@child(VIRTUAL)
def test_memory_is_what_it_was() -> None:
    begin()
    x = torch.ones(1000, device="cuda")
    kept = []
    for _ in range(2):
        for _ in range(200):
            dist.all_reduce(x, async_op=True)
            dist.all_reduce(x, op=dist.ReduceOp.AVG)
        torch.cuda.synchronize()
        kept.append(torch.cuda.memory_allocated())
    assert kept[0] == kept[1] == 4096
    dist.destroy_process_group()


@child(VIRTUAL)
def test_groups_go_with_their_backends() -> None:
    from torchdevice_cuda.distributed import groups

    for _ in range(3):
        begin()
        dist.new_group([0])
        dist.destroy_process_group()
    assert len(groups._backends) == 0


@child(VIRTUAL)
def test_a_graph_has_its_collectives() -> None:
    """They changed the tensors while they were captured, and not when the graph was replayed."""
    begin()
    x = on_cuda(2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x += 1
        dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))
        dist.all_reduce(x)
    assert x.tolist() == [1, 1]
    for expected in (4, 10):
        graph.replay()
        assert x.tolist() == [expected] * 2
    dist.destroy_process_group()


@child(CPU, MPS_FAITHFUL)
def test_a_graph_of_recorded_operators_refuses_collectives() -> None:
    import torch.distributed._functional_collectives as functional

    group = begin()
    x = on_cuda(4)
    for call in (
        lambda: dist.all_reduce(x),
        lambda: dist.broadcast(x, 0),
        dist.barrier,
        lambda: dist.all_gather_into_tensor(torch.empty(4, device="cuda"), x),
        lambda: functional.wait_tensor(functional.all_reduce(x, "sum", group)),
    ):
        with (
            pytest.raises(NotImplementedError, match="cannot be captured into a CUDA graph"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            call()
    sparse = x.to_sparse()
    with pytest.raises(NotImplementedError, match="layout torch.sparse_coo"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        sparse + sparse
    dist.all_reduce(x)
    assert x.tolist() == [1.0] * 4
    dist.destroy_process_group()


@child(VIRTUAL, CPU)
def test_a_default_device_is_not_for_the_host() -> None:
    begin()
    with torch.device("cuda"):
        dist.all_gather([x := torch.zeros(2)], on_cuda(2))
        dist.all_to_all([y := torch.zeros(2)], [on_cuda(2)])
    assert (x.tolist(), y.tolist()) == ([1, 1], [1, 1])
    dist.destroy_process_group()


@child(VIRTUAL)
def test_a_factor_by_the_name_of_the_reduction() -> None:
    kind: Any = dist.ReduceOp.PREMUL_SUM
    if torch.__version__ < "2.12":
        assert not callable(kind)
        return
    begin()
    dist.all_reduce(x := on_cuda(2), op=kind(3.0))
    assert x.tolist() == [3, 3]
    dist.destroy_process_group()


@child(VIRTUAL)
def test_work_in_flight_is_known_until_it_is_waited_for() -> None:
    from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx

    size: Any = torch._C._distributed_c10d._get_work_registry_size  # type: ignore[attr-defined]  # not in the stubs
    begin()
    with allow_inflight_collective_as_graph_input_ctx():
        work: Any = dist.all_reduce(on_cuda(2), async_op=True)
        assert size() == 1
        work.wait()
        assert size() == 0
    dist.destroy_process_group()


@child(VIRTUAL)
def test_work_says_how_it_came_out_as_nccls() -> None:
    begin()
    work: Any = dist.all_reduce(on_cuda(2), async_op=True)
    if hasattr(work, "get_future_result"):  # since 2.7
        assert work.get_future_result().wait() == 0
    with pytest.raises(NotImplementedError, match=r"WorkNCCL::isSuccess\(\) is deprecated"):
        work.is_success()
    work.wait()
    assert work.is_completed()
    dist.destroy_process_group()


@child(CPU, MPS_FAITHFUL)
def test_rpc_says_that_it_maps_no_devices() -> None:
    """TensorPipe ended the process at the first tensor."""
    from torch.distributed import rpc

    with pytest.raises(NotImplementedError, match="RPC with device maps"):
        rpc.TensorPipeRpcBackendOptions().set_device_map("worker1", {0: 0})
    with pytest.raises(NotImplementedError, match="RPC with device maps"):
        rpc.TensorPipeRpcBackendOptions(device_maps={"worker1": {0: 0}})
