"""Elementwise kernels from CUDA C++ source.

The source is checked when a function is made; calling the function raises, since CUDA C++ takes an NVIDIA GPU.
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor

__all__: list[str] = []

_MOST_INPUTS = 8
# template <typename T> T name(T x, T y) { ... }
_FUNCTION = re.compile(
    r"\s*template\s*(?P<template_params>\<.+\>)\s*(?P<return_type>\w+)\s+(?P<function_name>\w+)\s*"
    r"(?P<function_params>\(.+\))\s*(?P<function_body>\{.+\})\s*",
    re.DOTALL,
)


class _CodeParser:
    """The parts of a function template; the last one where the source defines several."""

    def __init__(self, code_string: str):
        found = _FUNCTION.match(code_string)
        if found is None:
            raise Exception(f"Couldn't parse code, please check correctness:\n {code_string}")
        for part, text in found.groupdict().items():
            setattr(self, part, text)


class _JittedFunction:
    """A function made of CUDA C++ source."""

    def __init__(self, code_string: str, return_by_ref: bool, num_outputs: int, **kwargs):
        if num_outputs != 1 and not return_by_ref:
            raise AssertionError("Return by value only works for single output.")
        self.code_string = code_string
        self.return_by_ref = return_by_ref
        self.num_outputs = num_outputs
        self.kernel_name = _CodeParser(code_string).function_name
        self.kwargs_dict = kwargs
        self.is_cuda_available = torch.cuda.is_available()

    def __call__(self, *tensors: Tensor, **kwargs):
        if not self.is_cuda_available:
            raise AssertionError("Jiterator is only supported on CUDA and ROCm GPUs, none are available.")
        if len(tensors) > _MOST_INPUTS:
            raise AssertionError(f"jiterator only supports up to {_MOST_INPUTS} tensor inputs, got {len(tensors)}")
        for name in kwargs:
            if name not in self.kwargs_dict:
                raise KeyError(f"{name} is not declared in function definition")
        return torch._C._cuda_jiterator_compile_and_launch_kernel(
            self.code_string,
            self.kernel_name,
            self.return_by_ref,
            self.num_outputs,
            tensors,
            {**self.kwargs_dict, **kwargs},
        )


def _create_jit_fn(code_string: str, **kwargs) -> Callable:
    """A function of up to 8 tensors from a C++ function template that returns one element; ``kwargs`` are defaults."""
    return _JittedFunction(code_string, return_by_ref=False, num_outputs=1, **kwargs)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs) -> Callable:
    """The same with several results, which the C++ function writes through reference parameters."""
    return _JittedFunction(code_string, return_by_ref=True, num_outputs=num_outputs, **kwargs)
