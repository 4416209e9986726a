"""The libraries beneath torch.cuda, and the functions of torch._C that deal with storages."""

from __future__ import annotations

import importlib.metadata
import os
import re

import pytest
import torch
from harness import CPU, VIRTUAL, child

from torchdevice_cuda import _compat

from .answers import public


# ------------------------------------------------------------------------ libraries
def required(library: str) -> tuple[int, ...] | None:
    """Return the version of one of NVIDIA's libraries that the installed torch requires, as a CUDA build does."""
    wanted = re.compile(rf"nvidia-{library}-cu\d+ *\(?==([\d.]+)")
    found = (wanted.match(line) for line in importlib.metadata.requires("torch") or ())
    return next((tuple(map(int, match[1].split("."))) for match in found if match), None)


@pytest.mark.skipif(required("cudnn") is None, reason="a CPU build requires none of them")
def test_versions_are_those_of_the_wheel() -> None:
    version = torch.__version__
    assert _compat.nccl_version(version) == required("nccl")
    assert _compat.cudnn_version(version) == (required("cudnn") or ())[:3]
    major, minor, patch = (required("cusparselt") or ())[:3]
    assert _compat.cusparselt_version(version) == major * 1000 + minor * 100 + patch
    if re.search(r"\+cu\d+$", version):  # the default wheel of a release names its CUDA; others do, too
        assert _compat.cuda_version(version) == torch.version.cuda


@child(CPU)
def test_cudnn() -> None:
    cudnn = torch._C._cudnn
    assert public(cudnn) == ["RNNMode", "getCompileVersion", "getRuntimeVersion", "getVersionInt", "is_cuda"]
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() == cudnn.getVersionInt()
    assert tuple(cudnn.getRuntimeVersion()) == tuple(cudnn.getCompileVersion())
    assert cudnn.is_cuda is True


@child(CPU)
def test_cudnn_of_the_default_device() -> None:
    """Torch refuses newer versions on a device that claims less than 7.5, as ours does by default."""
    assert torch._C._cudnn.getVersionInt() < 91100


@child(CPU.with_settings(capability=(9, 0)))
def test_cudnn_of_a_newer_device() -> None:
    """The claimed capability chooses the version, and torch accepts the pair."""
    assert torch.backends.cudnn.version() >= 90100


@child(CPU)
def test_modes_of_recurrent_layers() -> None:
    modes = [int(torch.backends.cudnn.rnn.get_cudnn_mode(mode)) for mode in ("RNN_RELU", "RNN_TANH", "LSTM", "GRU")]
    assert modes == [0, 1, 2, 3]


@child(CPU)
def test_limit_of_cudnn_benchmarks() -> None:
    assert torch._C._cuda_get_cudnn_benchmark_limit() == 10
    torch._C._cuda_set_cudnn_benchmark_limit(3)
    assert torch._C._cuda_get_cudnn_benchmark_limit() == 3


@child(CPU)
def test_workspaces_of_cublas_as_configured() -> None:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"
    assert torch._C._cuda_getCublasWorkspaceSize() == 16 * 8 * 1024
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ""
    assert torch._C._cuda_getCublasWorkspaceSize() == 8519680


@child(CPU)
def test_workspaces_of_cublas_as_set() -> None:
    names, before = torch._C, torch._C._cuda_getCublasWorkspaceSize()
    names._cuda_setCublasWorkspaceSize(4096)
    names._cuda_setCublasLtWorkspaceSize(1 << 20)
    assert names._cuda_getCublasWorkspaceSize() == 4096
    assert names._cuda_getCublasLtWorkspaceSize() == 1 << 20
    names._cuda_resetCublasWorkspaceSize()
    names._cuda_resetCublasLtWorkspaceSize()
    assert names._cuda_getCublasWorkspaceSize() == names._cuda_getCublasLtWorkspaceSize() == before
    assert names._cuda_clearCublasWorkspaces() is None
    with pytest.raises(RuntimeError):
        names._cuda_setCublasWorkspaceSize(-1)


@child(CPU)
def test_cusparselt_is_as_available_as_the_build_says() -> None:
    assert public(torch._C._cusparselt) == ["getVersionInt", "mm_search"]
    assert torch.backends.cusparselt.is_available() is (torch.backends.cuda.is_built() and torch._C._has_cusparselt)


@child(CPU)
def test_compiled_kernels_are_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match="'k'"):
        torch._C._StaticCudaLauncher._load_kernel("k.cubin", "k", 0, 0)


@child(CPU)
def test_convolutions_empty_the_cache_before_a_benchmark() -> None:
    assert torch._C._cuda_get_conv_benchmark_empty_cache() is True


# -------------------------------------------------------------------------- storages
@child(CPU)
def test_a_tensor_of_a_storage_shares_it() -> None:
    x = torch.arange(6.0)
    shape = {"dtype": torch.float32, "storage_offset": 1, "size": (2, 2), "stride": (2, 1)}
    made = torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(shape, x.untyped_storage())
    assert made.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert made.data_ptr() == x[1:].data_ptr()


@child(CPU)
def test_addresses_are_compared_at_indices() -> None:
    x, y = torch.arange(6.0), torch.ones(1)
    equal = torch._C._tensors_data_ptrs_at_indices_equal
    assert equal([x, y], [x.data_ptr(), 0], [0])
    assert not equal([x, y], [x.data_ptr(), 0], [0, 1])
    assert equal([x, y], [None, None], [0, 1])


@child(CPU)
def test_deleters_of_storages_stay() -> None:
    storage = torch.arange(6.0).untyped_storage()
    assert torch._C._has_Standard_Deleter(storage._cdata) is False
    with pytest.raises(RuntimeError):
        torch._C._free_And_Remove_DeleterFn(storage._cdata)


@child(VIRTUAL)
def test_tensors_that_cudnn_accepts() -> None:
    """cuDNN accepts GPU tensors that are not empty, of every dtype, as on an H200."""
    taken = torch.cudnn_is_acceptable
    for dtype in (torch.float16, torch.float32, torch.bfloat16, torch.int32, torch.complex64):
        x = torch.zeros(2, 3, dtype=dtype, device="cuda")
        assert taken(x) is True
        assert [taken(y) for y in (x[:0], x.cpu(), x.to("meta"))] == [False] * 3
    with torch.backends.cudnn.flags(enabled=False):
        assert taken(x) is False
    with pytest.raises(TypeError):
        taken(1)
    layer = torch.nn.GRU(3, 4).cuda()
    assert layer(torch.ones(2, 1, 3, device="cuda"))[0].shape == (2, 1, 4)
