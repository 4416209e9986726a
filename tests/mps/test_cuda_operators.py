"""Calls by CUDA's name: operators of its libraries, custom kernels for it, and code that looks for it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import MPS, MPS_FAITHFUL, VIRTUAL, child
from torch import nn
from torch.nn import functional

from torchdevice_cuda._compat import torch_release

from .seeing import raised, real

on_mps = child(MPS_FAITHFUL)
Tensors = list[torch.Tensor]


def _numbers(*shape: int) -> torch.Tensor:
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) * 37 % 23) / 8 - 1).reshape(shape)


IMAGE, KERNEL, GRID = (2, 3, 5, 5), (3, 3, 3, 3), (2, 4, 4, 2)
PLAIN = ([1, 1], [1, 1], [1, 1], 1)
EXACTLY = (False, False, False)
#: An operator of cuDNN's, what stock torch has in its place, and the shapes of the arguments.
CUDNN: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[int, ...]]]] = {
    "convolution": (
        lambda x, w: torch.cudnn_convolution(x, w, [1, 1], [2, 2], [1, 1], 1, *EXACTLY),
        lambda x, w: nn.functional.conv2d(x, w, stride=2, padding=1),
        [IMAGE, KERNEL],
    ),
    "transposed": (
        lambda x, w: torch.cudnn_convolution_transpose(x, w, [1, 1], [0, 0], [2, 2], [1, 1], 1, *EXACTLY),
        lambda x, w: nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
        [IMAGE, KERNEL],
    ),
    "with relu": (
        lambda x, w, b: torch.cudnn_convolution_relu(x, w, b, *PLAIN),
        lambda x, w, b: nn.functional.conv2d(x, w, b, padding=1).relu(),
        [IMAGE, KERNEL, (3,)],
    ),
    "with a sum and relu": (
        lambda x, w, z, b: torch.cudnn_convolution_add_relu(x, w, z, 0.5, b, *PLAIN),
        lambda x, w, z, b: (nn.functional.conv2d(x, w, b, padding=1) + z * 0.5).relu(),
        [IMAGE, KERNEL, IMAGE, (3,)],
    ),
    "batch norm": (
        lambda x, w, b: torch.cudnn_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)[0],
        lambda x, w, b: nn.functional.batch_norm(x, None, None, w, b, True),
        [IMAGE, (3,), (3,)],
    ),
    "grid": (
        lambda theta: torch.cudnn_affine_grid_generator(theta, 2, 3, 4, 4),
        lambda theta: nn.functional.affine_grid(theta, [2, 3, 4, 4], align_corners=True),
        [(2, 2, 3)],
    ),
    "sampled": (
        lambda x, grid: torch.cudnn_grid_sampler(x, grid),
        lambda x, grid: nn.functional.grid_sample(x, grid, align_corners=True),
        [IMAGE, GRID],
    ),
}
#: cuDNN has no gradient of these.
FORWARD_ONLY = ("with relu", "with a sum and relu")


def _with_gradients(function: Callable[..., Any], given: Tensors, backward: bool) -> Tensors:
    given = [value.detach().requires_grad_(backward) for value in given]
    made = function(*given)
    if backward:
        (made * made).sum().backward()
    return [made, *(value.grad for value in given if value.grad is not None)]


@on_mps
@pytest.mark.parametrize("name", CUDNN)
def test_cudnns_operators(name: str) -> None:
    there, here, shapes = CUDNN[name]
    numbers, backward = [_numbers(*shape) for shape in shapes], name not in FORWARD_ONLY
    ours = _with_gradients(there, [value.cuda() for value in numbers], backward)
    assert {real(value) for value in ours} == {"mps"}
    for mine, expected in zip(ours, _with_gradients(here, numbers, backward), strict=True):
        torch.testing.assert_close(mine.cpu(), expected, rtol=1e-4, atol=1e-4)


REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], str, str]] = {
    "miopen": (
        lambda x: torch.miopen_convolution(x, x, None, *PLAIN, False, False),
        "RuntimeError",
        "miopen_convolution: ATen not compiled with MIOpen support",
    ),
    "miopen's networks": (
        lambda x: torch.miopen_rnn(x, [x], 1, x, None, 1, 1, 1, True, 0.0, True, False, [], None),
        "RuntimeError",
        "miopen_rnn : ATen not compiled with MIOpen support.",
    ),
    "onednn": (
        lambda x: x.to_mkldnn(),
        "NotImplementedError",
        "Could not run 'aten::to_mkldnn' with arguments from the 'CUDA' backend. This could be",
    ),
    "onednn's pooling": (
        lambda x: torch.mkldnn_max_pool2d(x, 2),
        "NotImplementedError",
        "Could not run 'aten::mkldnn_max_pool2d' with arguments from the 'CUDA' backend. This could be",
    ),
    "sparse": (
        lambda x: torch.smm(x[0, 0].to_sparse(), x[0, 0]),
        "RuntimeError",
        "NYI: CUDA sspaddmm is not implemented",
    ),
    "packed": (
        lambda x: torch.ops.quantized.embedding_bag_byte(
            torch.ops.quantized.embedding_bag_prepack(
                torch.quantize_per_channel(torch.ones(2, 4), torch.ones(2), torch.zeros(2), 0, torch.quint8)
            ),
            torch.zeros(2, dtype=torch.long, device="cuda"),
        ),
        "NotImplementedError",
        "Could not run 'quantized::embedding_bag_byte' with arguments from the 'CUDA' backend. This could be",
    ),
}


@on_mps
@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_cudas_words(name: str) -> None:
    call, kind, words = REFUSED[name]
    was = raised(lambda: call(_numbers(*IMAGE).cuda())) or ("", "")
    assert (was[0], was[1][: len(words)]) == (kind, words)


@on_mps
def test_windows_that_only_the_cpu_and_cuda_compute() -> None:
    for given in ((7,), (7, False), (7, True, 3.0)):
        made = torch.kaiser_window(*given, device="cuda")
        assert made.is_cuda
        torch.testing.assert_close(made.cpu(), torch.kaiser_window(*given))


@on_mps
def test_kernels_that_a_program_writes_for_cuda() -> None:
    called: list[str] = []

    @torch.library.custom_op("mps_written::scaled", mutates_args=(), device_types="cuda")
    def scaled(x: torch.Tensor) -> torch.Tensor:
        called.append("custom_op")
        return x * 3

    library = torch.library.Library("mps_written", "FRAGMENT")
    library.define("shifted(Tensor x) -> Tensor")

    @torch.library.impl(library, "shifted", "CUDA")
    def shifted(x: torch.Tensor) -> torch.Tensor:
        called.append("impl")
        return x + 1

    x = torch.ones(3, device="cuda")
    assert scaled(x).tolist() == [3, 3, 3]
    assert torch.ops.mps_written.shifted(x).tolist() == [2, 2, 2]
    assert called == ["custom_op", "impl"]
    kind, _ = raised(lambda: scaled(torch.ones(3))) or ("", "")
    assert kind == "NotImplementedError"


@on_mps
def test_casts_that_a_program_wants_under_autocast() -> None:
    @torch.library.custom_op("mps_written::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    torch.library.register_autocast(twice, "cuda", torch.bfloat16)
    x = torch.ones(3, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert twice(x).dtype is torch.bfloat16
    assert twice(x).dtype is torch.float32


@on_mps
def test_code_that_looks_for_a_gpu_finds_one() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    parameters = nn.ParameterDict({"a": nn.Parameter(torch.ones(3, device="cuda"))})
    assert "[torch.cuda.FloatTensor of size 3 (cuda:0)]" in repr(parameters)
    assert "of size 3 (cuda:0)]" in repr(nn.ParameterList(parameters.values()))
    storage = torch.ones(3, device="cuda").untyped_storage()
    assert storage.share_memory_() is storage
    q = _numbers(1, 2, 8, 16)
    made = flex_attention(q.cuda(), q.cuda(), q.cuda())
    torch.testing.assert_close(made.cpu(), nn.functional.scaled_dot_product_attention(q, q, q), rtol=1e-4, atol=1e-4)
    given = (q.cuda(), q.cuda(), q.cuda(), None, 0.0, False, False)
    assert not torch.backends.cuda.can_use_cudnn_attention(torch.backends.cuda.SDPAParams(*given))


@on_mps
def test_saved_programs_are_read_onto_the_gpu() -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), file)
    read = torch._C.import_ir_module_from_buffer(
        torch._C.CompilationUnit(), file.getvalue(), torch.device("cuda"), {}, False
    )
    assert real(read.getattr("weight")) == "mps"


@child(MPS_FAITHFUL, alone=True)
def test_barriers_of_groups() -> None:
    """C++ would make a tensor on CUDA."""
    from torch._C._distributed_c10d import BarrierOptions

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.distributed_c10d._get_default_group()
    options = BarrierOptions()
    options.device = torch.device("cuda:0")
    for given in ((), (options,)):
        assert group.barrier(*given).wait()
    norm = nn.SyncBatchNorm(3).cuda()
    assert norm(_numbers(2, 3, 4).cuda()).is_cuda
    dist.destroy_process_group()


#: Products with the result type as an argument, and the shapes of their arguments.
PRODUCTS = {
    "mm": [(3, 4), (4, 2)],
    "bmm": [(2, 3, 4), (2, 4, 2)],
    "addmm": [(3, 2), (3, 4), (4, 2)],
    "baddbmm": [(2, 3, 2), (2, 3, 4), (2, 4, 2)],
}


def _typed(name: str, types: list[torch.dtype], out_dtype: torch.dtype, **options: Any) -> Any:
    given = [_numbers(*shape).to("cuda", dtype) for shape, dtype in zip(PRODUCTS[name], types, strict=True)]
    try:
        made = getattr(torch, name)(*given, out_dtype=out_dtype, **options)
    except RuntimeError as error:
        return str(error)
    return [str(made.device), str(made.dtype), made.tolist()]


@child(MPS_FAITHFUL, MPS, as_in=VIRTUAL)
@pytest.mark.skipif(torch_release(torch.__version__) < (2, 8), reason="torch has none of them")
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_another_result_type(name: str) -> list[Any]:
    half, wide, count = torch.float16, torch.float32, len(PRODUCTS[name])
    scaled = {"beta": 0.5, "alpha": 2.0} if count == 3 else {}
    return [
        _typed(name, [half] * count, wide, **scaled),
        _typed(name, [half] * count, half),
        _typed(name, [torch.bfloat16] * count, wide, out=torch.empty(0, device="cuda")),
        _typed(name, [half] * count, wide, out=torch.empty(0, device="cuda", dtype=half)),
        _typed(name, [wide] * (count - 2) + [half] * 2, wide),
        _typed(name, [wide] * count, half),
        _typed(name, [half] * count, torch.float64),
        _typed(name, [half] * (count - 1) + [wide], wide),
        _typed(name, [torch.bfloat16] * (count - 2) + [half] * 2, wide),
    ]


@child(MPS_FAITHFUL, MPS, as_in=VIRTUAL)
def test_an_operator_that_is_unsafe_to_autocast() -> list[str]:
    x, y = torch.full((4,), 0.5, device="cuda"), torch.ones(4, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast") as refused:
        functional.binary_cross_entropy(x, y)
    with torch.autocast("cuda", enabled=False):
        return [str(refused.value), str(functional.binary_cross_entropy(x, y).dtype)]
