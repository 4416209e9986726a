"""Pinned memory, loaders of data, other libraries' views of memory, and determinism."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from recorded.oracle.probing import about, kind, numbers, probe, raises, ramp, warned


@probe()
def pinned() -> Any:
    x = torch.ones(4)
    p = x.pin_memory()
    return [
        p.is_pinned(),
        x.is_pinned(),
        p.pin_memory() is p,
        p.data_ptr() == x.data_ptr(),
        p[1:].is_pinned(),
        (p + 1).is_pinned(),
        p.clone().is_pinned(),
        torch.empty_like(p).is_pinned(),
        torch.empty_like(p, pin_memory=True).is_pinned(),
        torch.zeros(2, pin_memory=True).is_pinned(),
        raises(lambda: torch.zeros(2, pin_memory=True, device="cuda")),
        raises(lambda: ramp(2).pin_memory()),
        raises(lambda: torch.ones(2).to_sparse().pin_memory().is_pinned()),
        p.untyped_storage().is_pinned(),
        torch.empty(0).pin_memory().is_pinned(),
        p.view(2, 2).is_pinned(),
        raises(lambda: torch.zeros(2, device="meta").pin_memory()),
        warned(lambda: p.is_pinned("cuda")),
        raises(lambda: torch.tensor([1.0], pin_memory=True).is_pinned()),
        raises(lambda: torch.rand(2, pin_memory=True).is_pinned()),
        raises(lambda: p.numpy().shape),
        torch.from_numpy(p.numpy()).is_pinned(),
    ]


@probe()
def pinned_structures() -> Any:
    from torch.utils.data._utils.pin_memory import pin_memory

    class Own:
        def __init__(self) -> None:
            self.called = False

        def pin_memory(self) -> Any:
            self.called = True
            return self

    out = pin_memory({"a": torch.ones(1), "b": [torch.ones(1), "text", 3], "c": (torch.ones(1),)})
    return [
        out["a"].is_pinned(),
        out["b"][0].is_pinned(),
        out["b"][1:],
        type(out["c"]).__name__,
        pin_memory(Own()).called,
        raises(lambda: pin_memory(ramp(1))),
        pin_memory(None),
    ]


@probe()
def loaders() -> Any:
    data = TensorDataset(torch.arange(6.0), torch.arange(6))
    a = [
        [x.is_pinned(), y.is_pinned(), x.to("cuda", non_blocking=True)] for x, y in DataLoader(data, 2, pin_memory=True)
    ]
    b = list(DataLoader(TensorDataset(ramp(4)), 2))
    g = torch.Generator().manual_seed(3)
    c = [x.tolist() for (x,) in DataLoader(TensorDataset(torch.arange(6)), 3, shuffle=True, generator=g)]
    return [
        a,
        b[0][0],
        c,
        raises(lambda: list(DataLoader(TensorDataset(ramp(4)), 2, pin_memory=True))),
        raises(lambda: list(DataLoader(data, 2, shuffle=True, generator=torch.Generator("cuda")))),
        warned(lambda: len(list(DataLoader(data, 2, pin_memory=True, pin_memory_device="cuda")))),
        raises(lambda: DataLoader(data, 2, pin_memory_device="bogus", pin_memory=True).__iter__() and None),
    ]


@probe()
def registered_memory() -> Any:
    x = torch.ones(1024)
    r = torch.cuda.cudart()
    a = r.cudaHostRegister(x.data_ptr(), x.numel() * 4, 0)
    b = x.is_pinned()
    c = r.cudaHostUnregister(x.data_ptr())
    return [int(a), b, int(c), x.is_pinned()]


@probe()
def tensors_of_other_libraries() -> Any:
    x = ramp(2, 3)
    i = x.__cuda_array_interface__
    cap = torch.utils.dlpack.to_dlpack(x)
    y = torch.from_dlpack(x)
    z = torch.as_tensor(type("Held", (), {"__cuda_array_interface__": i})(), device="cuda")
    return [
        sorted(i),
        i["typestr"],
        list(i["shape"]),
        i["strides"],
        i["version"],
        i["data"][0] == x.data_ptr(),
        i["data"][1],
        type(cap).__name__,
        y.data_ptr() == x.data_ptr(),
        list(x.__dlpack_device__()),
        z.data_ptr() == x.data_ptr(),
        about(z),
        raises(lambda: torch.ones(1).__cuda_array_interface__),
        raises(lambda: x.requires_grad_().__cuda_array_interface__),
        raises(lambda: torch.from_dlpack(x)),
        raises(lambda: x.detach().bfloat16().__cuda_array_interface__["typestr"]),
        x.detach().t().__cuda_array_interface__["strides"],
        raises(lambda: x.detach().to_sparse().__cuda_array_interface__),
        raises(lambda: torch.complex(x.detach(), x.detach()).conj().__dlpack__()),
        raises(lambda: x.detach().__dlpack__(stream=0)),
        raises(lambda: x.detach().__dlpack__(stream="x")),
        raises(lambda: about(torch.from_dlpack(x.detach().__dlpack__(stream=1)))),
        raises(lambda: torch.from_dlpack(torch.ones(2), device="cuda").device),
        raises(lambda: torch.from_dlpack(x.detach(), device="cpu").device),
        raises(lambda: torch.from_dlpack(x.detach(), copy=True).data_ptr() == x.data_ptr()),
    ]


@probe()
def deterministic_refusals() -> Any:
    x = ramp(2, 3, 4, 4).requires_grad_()
    i = torch.tensor([0, 0, 1], device="cuda")

    def back(y: Any) -> Any:
        y.sum().backward()
        return None

    import torch.nn.functional as F  # noqa: N812

    work = (
        lambda: torch.bincount(i, weights=ramp(3)),
        lambda: torch.histc(ramp(4)),
        lambda: ramp(3).put_(i, ramp(3)),
        lambda: ramp(3).put_(i, ramp(3), accumulate=True),
        lambda: torch.median(ramp(3)),
        lambda: torch.median(ramp(3), 0),
        lambda: ramp(4).kthvalue(2),
        lambda: ramp(3).scatter_add(0, i, ramp(3)),
        lambda: ramp(3).scatter_reduce(0, i, ramp(3), "mean"),
        lambda: ramp(3).index_add(0, i, ramp(3)),
        lambda: ramp(3).cumsum(0),
        lambda: torch.nonzero(ramp(3)).shape,
        lambda: F.interpolate(x, 2, mode="nearest").shape,
        lambda: back(F.interpolate(x, 2, mode="bilinear")),
        lambda: back(F.interpolate(x, 2, mode="nearest")),
        lambda: back(F.interpolate(x, 2, mode="bicubic")),
        lambda: back(F.max_pool2d(x, 2)),
        lambda: back(F.adaptive_avg_pool2d(x, 2)),
        lambda: back(F.adaptive_max_pool2d(x, 2)),
        lambda: back(F.avg_pool3d(x, 2)),
        lambda: back(F.max_pool3d(x, 2)),
        lambda: back(F.pad(x, (1, 1, 1, 1), "reflect")),
        lambda: back(F.pad(x, (1, 1, 1, 1), "replicate")),
        lambda: back(F.grid_sample(x, torch.zeros(2, 2, 2, 2, device="cuda"))),
        lambda: back(F.embedding_bag(i, ramp(3, 2).requires_grad_(), torch.tensor([0], device="cuda"), mode="max")),
        lambda: back(F.nll_loss(x, torch.zeros(2, 4, 4, dtype=torch.long, device="cuda"))),
        lambda: back(
            F.ctc_loss(
                ramp(5, 1, 3).requires_grad_().log_softmax(2),
                torch.ones(1, 1, dtype=torch.long, device="cuda"),
                (5,),
                (1,),
            )
        ),
        lambda: torch.empty(3, device="cuda").resize_(5).shape,
        lambda: back(F.fractional_max_pool2d(x, 2, output_size=2)),
        lambda: torch.quantile(ramp(3), 0.5),
        lambda: ramp(3)[i],
        lambda: ramp(3).index_put((i,), ramp(3), accumulate=True),
        lambda: ramp(4, 4) @ ramp(4, 4),
        lambda: back(F.unfold(x, 2)),
        lambda: back(F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
    )
    torch.use_deterministic_algorithms(True)
    try:
        out = [raises(lambda f=f: (f(), None)[1]) for f in work]
        torch.use_deterministic_algorithms(True, warn_only=True)
        out2 = [warned(lambda f=f: raises(lambda: (f(), None)[1])[0]) for f in work[:5]]
        mode = [
            torch.get_deterministic_debug_mode(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ]
    finally:
        torch.use_deterministic_algorithms(False)
    return [out, out2, mode]


@probe()
def deterministic_filling() -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return [
            torch.empty(2, device="cuda"),
            torch.empty(2, dtype=torch.int32, device="cuda"),
            torch.empty_strided((2,), (1,), device="cuda"),
            torch.empty_like(ramp(2)),
            torch.ones(1, device="cuda").resize_(3),
            ramp(2).new_empty(2),
            torch.empty(2, dtype=torch.bool, device="cuda"),
            torch.empty(1, dtype=torch.complex64, device="cuda"),
            torch.utils.deterministic.fill_uninitialized_memory,
        ]
    finally:
        torch.use_deterministic_algorithms(False)


@probe()
def printed() -> Any:
    x = ramp(3)
    return [
        repr(x),
        repr(x.half()),
        repr(x[0]),
        repr(torch.empty(0, 2, device="cuda")),
        repr(x.requires_grad_()),
        repr(x * 2),
        repr(torch.nn.Parameter(x)),
        repr(torch.zeros(2000, device="cuda")),
        repr(torch.complex(ramp(1), ramp(1))),
        repr(torch.tensor([True], device="cuda")),
        repr(torch.ones(2, device="cuda").to_sparse()),
        repr(torch.zeros(2, 2, device="cuda", dtype=torch.int8)),
        str(torch.tensor(1.5, device="cuda")),
        repr(torch.tensor([1e10, float("nan")], device="cuda")),
        repr(torch.nn.Linear(2, 2, device="cuda")),
        repr(ramp(2).to(torch.float8_e5m2)),
        repr(torch.quantize_per_tensor(ramp(2), 0.1, 0, torch.quint8)),
    ]


@probe()
def nested_tensors() -> Any:
    n = torch.nested.nested_tensor([ramp(2, 3), ramp(1, 3)], device="cuda")
    j = torch.nested.nested_tensor([ramp(2, 3), ramp(1, 3)], layout=torch.jagged, device="cuda")
    return [
        str(n.device),
        n.is_nested,
        n.to_padded_tensor(0.0),
        [about(t) for t in n.unbind()],
        str(j.layout),
        j.values(),
        j.offsets(),
        (j * 2).values(),
        raises(lambda: (n + n).to_padded_tensor(0.0)),
        raises(lambda: n.shape),
        raises(lambda: torch.matmul(n, ramp(3, 2)).size(0)),
        raises(lambda: n.cpu().device),
        raises(lambda: torch.nested.nested_tensor([ramp(2), torch.ones(2)]).device),
        raises(lambda: j + torch.ones(2, 3, device="cuda")),
        raises(lambda: torch.nn.functional.softmax(n, -1).to_padded_tensor(0.0)),
        raises(lambda: n.sum()),
        raises(lambda: torch.nn.functional.layer_norm(n, (3,)).size(0)),
        raises(lambda: repr(n).splitlines()[0]),
        raises(lambda: torch.nested.as_nested_tensor([ramp(2), ramp(3)]).device),
    ]


@probe()
def communication_of_devices() -> Any:
    import torch.cuda.comm as comm
    import torch.nn.parallel as par

    x = ramp(4)
    net = torch.nn.DataParallel(torch.nn.Linear(4, 2).cuda())
    return [
        comm.broadcast(x, [0]),
        comm.scatter(x, [0]),
        comm.gather([x[:2], x[2:]], destination=-1),
        comm.gather([x], destination="cuda:0"),
        comm.reduce_add([x]),
        comm.reduce_add_coalesced([[x]]),
        raises(lambda: comm.scatter(torch.ones(4), [0, 99])),
        raises(lambda: comm.gather([x, torch.ones(4)])),
        raises(lambda: comm.broadcast(x, devices=None)),
        raises(lambda: comm.broadcast(x, [0], out=[x])),
        net(ramp(3, 4)).shape,
        net.device_ids,
        raises(lambda: net(torch.ones(3, 4)).device),
        raises(lambda: par.data_parallel(torch.nn.Linear(4, 2), x[None], [0]).shape),
        raises(lambda: torch.nn.DataParallel(torch.nn.Linear(1, 1).cuda(), [99])),
        par.scatter({"a": x, "b": 3}, [0]),
        raises(lambda: par.replicate(net.module, [0])[0].weight.device),
        raises(lambda: torch.cuda.nccl.is_available([x])),
        kind(lambda: torch.cuda.nccl.is_available([x.cpu()])),
        torch.cuda.nccl.unique_id().__class__.__name__,
        raises(lambda: torch.cuda.nccl.all_reduce([x])),
        raises(lambda: torch.cuda.nccl.broadcast([x])),
        raises(lambda: torch.cuda.nccl.reduce([x])),
        raises(lambda: torch.cuda.nccl.all_gather([x], [torch.zeros(4, device="cuda")])),
    ]


@probe()
def kernels_compiled_at_run_time() -> Any:
    from torch.cuda.jiterator import _create_jit_fn

    code = "template <typename T> T twice(T x) { return x * 2 + 1; }"
    return [
        raises(lambda: _create_jit_fn(code)(ramp(2))),
        raises(lambda: _create_jit_fn("bogus")),
        raises(lambda: _create_jit_fn(code)(torch.ones(2))),
        raises(
            lambda: numbers(
                _create_jit_fn("template <typename T> T f(T x, T y, T a) { return x + a * y; }", a=2)(ramp(2), ramp(2))
            )
        ),
        kind(lambda: _create_jit_fn(code)(ramp(2), bogus=3)),
    ]


@probe()
def shared_tensors() -> Any:
    x = ramp(3)
    return [
        x.is_shared(),
        x.share_memory_() is x,
        torch.ones(2).is_shared(),
        [type(v).__name__ for v in x.untyped_storage()._share_cuda_()],
        raises(lambda: torch.ones(2).untyped_storage()._share_cuda_()),
        raises(lambda: x.untyped_storage()._share_fd_cpu_()),
        len(torch.multiprocessing.reductions.reduce_tensor(x)),
        torch.multiprocessing.reductions.reduce_tensor(x)[0].__name__,
        raises(lambda: torch.multiprocessing.reductions.reduce_event(torch.cuda.Event())),
        raises(lambda: torch.multiprocessing.reductions.reduce_event(torch.cuda.Event(interprocess=True))[0].__name__),
        raises(lambda: torch.multiprocessing.reductions.reduce_tensor(x.clone().requires_grad_() * 2)),
    ]
