"""Errors that name the Apple GPU, in CUDA's words and in the CPU's."""

from __future__ import annotations

import pytest
import torch

from torchdevice_cuda.translate.core.errors import in_cudas_words

SAME = "Expected all tensors to be on the same device"
#: What torch says with the device's own name, and which name stands there on CUDA and on the CPU. Most are said by
#: stock torch of any device.
SAID = (
    f"{SAME}, but found at least two devices, {{}}:0 and cpu!",
    "Expected a '{}' device type for generator but found 'cpu'",
    "Expected object of device type {} but got device type cpu for argument #1",
    "Expected object of backend type {} but got cpu",
    "indices should be either on cpu or on the same device as the indexed tensor ({}:0)",
    "tensors must be on the same device: {}:0",
    "weights should be on the same device as {}",
    "the tensors are not at the same device: {}",
    "attempting to assign a gradient with device type '{}' to a tensor with device type 'cpu'",
    'Attempted to set the storage of a tensor on device "cpu" to a storage on different device "{}:0"',
    "can't convert {}:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    "Tensor for argument #2 'mat2' is on CPU, but expected it to be on {}",
    "Tensor for out is on CPU, expected {}",
    "Tensor for weight is on {}",
    "Expected tensor1 tensor on device {}:0",
    "input is on {}:0, different from other tensors",
    "weight is on {}, but expected cpu",
)


@pytest.mark.parametrize("said", SAID)
def test_errors_that_name_the_device(said: str) -> None:
    assert in_cudas_words(said.format("mps")) == said.format("cuda")
    assert in_cudas_words(said.format("mps"), on_cpu=True) == said.format("cpu").replace("cpu:0", "cpu")


def test_as_torch_itself_says_them() -> None:
    """Take messages about a device that this build has, in place of the Apple GPU."""
    for call, name in (
        (lambda: torch.rand(1, device="meta", generator=torch.Generator()), "meta"),
        (lambda: torch.ones(2, device="meta").numpy(), "meta"),
    ):
        try:
            call()
        except (RuntimeError, TypeError) as error:
            said = str(error)
            if name in said:
                assert in_cudas_words(said.replace(name, "mps")) == said.replace(name, "cuda")


def test_names_of_kernels_and_types() -> None:
    kernel = f"{SAME} (when checking argument for argument mat1 in method wrapper_MPS_addmm)"
    assert in_cudas_words(kernel) == kernel.replace("wrapper_MPS_", "wrapper_CUDA_")
    assert in_cudas_words(kernel, on_cpu=True) == kernel.replace("wrapper_MPS_", "wrapper_CPU_")
    types = "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same"
    assert in_cudas_words(types) == types.replace("MPSFloatType", "torch.cuda.FloatTensor")
    assert in_cudas_words(types, on_cpu=True) == types.replace("MPSFloatType", "torch.FloatTensor")
    biased = types.replace("weight", "bias")
    assert in_cudas_words(biased) == biased.replace("MPSFloatType", "torch.cuda.FloatTensor")
    assigned = "can't assign a torch.FloatTensor to a torch.mps.FloatTensor"
    assert in_cudas_words(assigned) == "can't assign a torch.FloatTensor to a torch.cuda.FloatTensor"
    assert in_cudas_words(assigned, on_cpu=True) == "can't assign a torch.FloatTensor to a torch.FloatTensor"


@pytest.mark.parametrize(
    "said",
    [
        "Placeholder storage has not been allocated on MPS device!",
        "Passed CPU tensor to MPS op",
        "Passed CPU tensor to MPS op: x",
    ],
)
def test_mps_messages_about_tensors_on_other_devices(said: str) -> None:
    assert in_cudas_words(said) == f"{SAME}, but found at least two devices, cuda:0 and cpu!"
    assert in_cudas_words(f"not at the beginning: {said}") == f"not at the beginning: {said}"


@pytest.mark.parametrize(
    "said",
    [
        "mat1 and mat2 shapes cannot be multiplied",
        f"{SAME}, cuda:0 and cpu!",
        "no file mps.txt in MPS",
        "The operator 'aten::x' is not currently implemented for the MPS device",
        "",
    ],
)
def test_other_errors_are_as_they_are(said: str) -> None:
    assert in_cudas_words(said) is said


def test_only_the_first_device_and_only_whole_words() -> None:
    said = f"{SAME}: mps:0, mps:1, mpsx, xmps and mps"
    assert in_cudas_words(said) == f"{SAME}: cuda:0, cuda:1, mpsx, xmps and cuda"
