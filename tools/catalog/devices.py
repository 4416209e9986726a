"""Calls of torch's own functions that take what another one gives, and of those that only a GPU has."""

from __future__ import annotations

import ctypes.util
from collections.abc import Callable
from typing import Any

import torch
import values
from values import Given, numbers

Call = Callable[[str], Any]


def packed(d: str) -> list[Any]:
    """A matrix as fbgemm takes it, with its sums, scale and point. It has the CPU alone, and never asks where it is."""
    weight, sums, scale, point = torch.fbgemm_linear_quantize_weight(numbers("cpu", 3, 3))
    return [weight, torch.fbgemm_pack_quantized_matrix(weight), sums, scale, point]


def quantised_cell(name: str, gates: int) -> Call:
    """Return a recurrent layer's step with weights of whole numbers, on the CPU: fbgemm computes it."""

    def call(d: str) -> Any:
        w, b = torch.ones(3 * gates, 3, dtype=torch.int8), numbers("cpu", 3 * gates)
        p, c = torch.fbgemm_pack_quantized_matrix(w), torch.zeros(3 * gates, dtype=torch.int)
        x = numbers("cpu", 3, 3)
        return getattr(torch, name)(x, (x, x) if "lstm" in name else x, w, w, b, b, p, p, c, c, 0.5, 0.5, 0, 0)

    return call


def typed_by_default(d: str) -> Any:
    kind = "cuda." if torch.device(d).type == "cuda" else ""
    torch.set_default_tensor_type(f"torch.{kind}DoubleTensor")
    try:
        return torch.ones(2)
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")


def cast_to(d: str) -> Any:
    kind = torch.device(d).type
    before = torch.get_autocast_dtype(kind)
    torch.set_autocast_dtype(kind, torch.bfloat16)
    try:
        return torch.get_autocast_dtype(kind)
    finally:
        torch.set_autocast_dtype(kind, before)


def captured(d: str) -> Any:
    """Return a graph with a capture in it, and what it writes to."""
    x = torch.ones(3, device=d)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y = x * 2
    return graph, y


def replayed(d: str) -> Any:
    graph, y = captured(d)
    graph.replay()
    return y


def capturing(d: str) -> Any:
    """Return a capture begun and ended by hand, on a stream of its own."""
    graph, x = torch.cuda.CUDAGraph(), torch.ones(3, device=d)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.synchronize()
        graph.capture_begin()
        y = x * 2
        graph.capture_end()
    graph.replay()
    return y


def instantiated(method: str | None = None) -> Call:
    def call(d: str) -> Any:
        graph, _ = captured(d)
        graph.instantiate()
        return getattr(graph, method)() if method else graph

    return call


def timed(d: str) -> Any:
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) >= 0


def green(d: str) -> Any:
    """Return a context with eight of the GPU's processors."""
    return torch.cuda.GreenContext.create(num_sms=8, device_id=0)


def entered(d: str) -> Any:
    made = green(d)
    made.set_context()
    made.pop_context()
    return made


def given_memory(d: str) -> Any:
    return torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(256))


def tuned(d: str) -> Any:
    """Tuning of the products that a file lists: none."""
    with open("untuned.csv", "w") as file:
        file.write("Validator,PT_VERSION,2.0\n")
    before = torch.cuda.tunable.is_enabled()
    torch.cuda.tunable.enable(True)
    try:
        return torch.cuda.tunable.tune_gemm_in_file("untuned.csv")
    finally:
        torch.cuda.tunable.enable(before)


def pluggable(d: str) -> Any:
    """Return an allocator of a library's: the functions are looked up, and never called."""
    return torch.cuda.CUDAPluggableAllocator(ctypes.util.find_library("c") or "libc.so.6", "malloc", "free")


def storage(d: str) -> Any:
    return numbers(d, 3).storage()


OBJECTS: dict[str, values.Maker] = {}
GIVEN: dict[str, Given] = {
    "torch.TypedStorage.copy_": lambda x, d: [storage(d)],
}  # fmt: skip
CALLS: dict[str, Call] = {
    "torch.TypedStorage.pin_memory": lambda d: numbers("cpu", 3).storage().pin_memory(),
    "torch.TypedStorage.from_buffer": lambda d: torch.TypedStorage.from_buffer(bytearray(16), byte_order="native",
        dtype=torch.float32).tolist(),
    "torch.asarray": lambda d: torch.asarray([1.0, 2.0], device=d),
    "torch.set_rng_state": lambda d: torch.set_rng_state(torch.get_rng_state()),
    "torch.set_default_tensor_type": typed_by_default, "torch.set_autocast_dtype": cast_to,
    "torch.saddmm": lambda d: torch.saddmm(numbers(d, 3, 3).to_sparse(), numbers(d, 3, 3).to_sparse(), numbers(d, 3,
        3)),
    "torch.Tensor.numpy": lambda d: numbers(d, 3).numpy().tolist(),
    "torch.Tensor.map_": lambda d: numbers(d, 3).map_(numbers(d, 3), lambda a, b: a + b),
    "torch.fbgemm_linear_quantize_weight": lambda d: torch.fbgemm_linear_quantize_weight(numbers("cpu", 3, 3)),
    "torch.fbgemm_pack_quantized_matrix": lambda d: torch.fbgemm_pack_quantized_matrix(torch.ones(3, 3,
        dtype=torch.int8)).numel() > 0,
    "torch.fbgemm_pack_gemm_matrix_fp16": lambda d: torch.fbgemm_pack_gemm_matrix_fp16(numbers("cpu", 3, 3)).numel(),
    **{f"torch.{name}": lambda d, name=name: getattr(torch, name)(numbers("cpu", 3, 3),
        torch.fbgemm_pack_gemm_matrix_fp16(numbers("cpu", 3, 3)), numbers("cpu", 3)) for name in (
        "fbgemm_linear_fp16_weight", "fbgemm_linear_fp16_weight_fp32_activation")},
    **{f"torch.{name}": lambda d, name=name: getattr(torch, name)(numbers("cpu", 3, 3), *packed(d), numbers("cpu", 3))
        for name in ("fbgemm_linear_int8_weight", "fbgemm_linear_int8_weight_fp32_activation")},
    **{f"torch.{name}": quantised_cell(name, gates) for name, gates in {"quantized_lstm_cell": 4,
        "quantized_gru_cell": 3, "quantized_rnn_relu_cell": 1, "quantized_rnn_tanh_cell": 1}.items()},
    "torch.choose_qparams_optimized": lambda d: torch.choose_qparams_optimized(numbers("cpu", 16), 16, 20, 0.16, 8),
    "torch.serialization.StorageType": lambda d: torch.serialization.StorageType("FloatStorage").dtype,
    "torch.cuda.CUDAGraph.capture_begin": capturing, "torch.cuda.CUDAGraph.capture_end": capturing,
    "torch.cuda.CUDAGraph.instantiate": instantiated(),
    "torch.cuda.CUDAGraph.pool": lambda d: len(captured(d)[0].pool()),
    "torch.cuda.CUDAGraph.raw_cuda_graph": lambda d: captured(d)[0].raw_cuda_graph(),
    "torch.cuda.CUDAGraph.raw_cuda_graph_exec": instantiated("raw_cuda_graph_exec"),
    "torch.cuda.CUDAGraph.replay": replayed, "torch.cuda.CUDAPluggableAllocator": pluggable,
    "torch.cuda.Event.elapsed_time": timed,
    "torch.cuda.Event.ipc_handle": lambda d: len(torch.cuda.Event(interprocess=True).ipc_handle()),
    "torch.cuda.GreenContext.Stream": lambda d: green(d).Stream(),
    "torch.cuda.GreenContext.set_context": entered, "torch.cuda.GreenContext.pop_context": entered,
    "torch.cuda.caching_allocator_delete": given_memory,
    "torch.cuda.can_device_access_peer": lambda d: torch.cuda.can_device_access_peer(0, 0),
    "torch.cuda.set_rng_state": lambda d: torch.cuda.set_rng_state(torch.cuda.get_rng_state()),
    "torch.cuda.set_rng_state_all": lambda d: torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all()),
    "torch.cuda.tunable.tune_gemm_in_file": tuned,
}  # fmt: skip
