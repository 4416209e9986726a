"""CUDA graphs, pools and kernels from source: the states they have, and what is refused in words."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from harness import CPU, MPS, child

from torchdevice_cuda._compat import methods_of_later_graphs, torch_release

from .answers import error

TWO = CPU.with_settings(devices=2)
#: Releases in which Python ends a capture in parts, with hooks in between.
IN_PARTS = torch_release(torch.__version__) >= (2, 14)
NOT_INSTANTIATED = "capture_end() must have been called before calling instantiate"
NO_GRAPH = (
    "No cudaGraph_t is available: either capture_end() has not been called, or the underlying cudaGraph_t was "
    "destroyed (keep_graph=false, and capture has been finalized)."
    if IN_PARTS
    else "You cannot access the raw cudaGraph_t instance until capture_end() has been called"
)
#: What a CUDA device said of a graph without a capture.
WITHOUT_CAPTURE = {
    "replay": (NOT_INSTANTIATED if IN_PARTS else "Called CUDAGraph::replay without a preceding successful capture."),
    "pool": "Called CUDAGraph::pool() without a preceding successful capture.",
    "instantiate": NOT_INSTANTIATED,
    "raw_cuda_graph": (
        NO_GRAPH
        if IN_PARTS
        else "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true"
    ),
    "raw_cuda_graph_exec": "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called",
    "capture_begin": (
        "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the "
        "default stream.)"
    ),
    "get_currently_capturing_graph": "The current stream is not currently capturing.",
}


@child(CPU)
@pytest.mark.parametrize("method", WITHOUT_CAPTURE)
def test_without_a_capture(method: str) -> None:
    if method in methods_of_later_graphs(torch.__version__):
        assert not hasattr(torch.cuda.CUDAGraph, method)
        return
    assert error(getattr(torch.cuda.CUDAGraph(), method)) == ("RuntimeError", WITHOUT_CAPTURE[method])


@child(CPU)
def test_a_kept_graph_without_a_capture() -> None:
    assert error(torch.cuda.CUDAGraph(keep_graph=True).raw_cuda_graph) == ("RuntimeError", NO_GRAPH)


@child(CPU)
@pytest.mark.skipif(not hasattr(torch.cuda.CUDAGraph, "get_graph_data"), reason="torch 2.12 has no such data")
def test_the_data_of_a_graph_take_nvidias_driver() -> None:
    kind, words = error(torch.cuda.CUDAGraph(keep_graph=True).get_graph_data)
    assert kind == "RuntimeError"
    assert "cuda.bindings" in words or "cuda-bindings" in words


@child(CPU)
def test_a_graph_is_reset_at_any_time() -> None:
    assert torch.cuda.CUDAGraph().reset() is None


@child(CPU)
def test_the_end_without_a_beginning_has_cudas_code() -> None:
    with pytest.raises(torch.AcceleratorError) as raised:
        torch.cuda.CUDAGraph().capture_end()
    assert raised.value.error_code == 401


@child(CPU)
def test_no_capture_is_underway() -> None:
    assert torch.cuda.is_current_stream_capturing() is False


@child(CPU)
def test_a_dump_says_whether_it_was_enabled() -> None:
    graph = torch.cuda.CUDAGraph()
    if IN_PARTS:
        assert error(lambda: graph.debug_dump("nowhere.dot")) == ("RuntimeError", NO_GRAPH)
        assert error(lambda: torch.cuda.export_dot("nowhere.dot")(graph)) == ("RuntimeError", NO_GRAPH)
        return
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert graph.debug_dump("nowhere.dot") is None
        assert graph.enable_debug_mode() is None
        assert graph.debug_dump("nowhere.dot") is None
    assert [str(one.message) for one in seen] == [
        "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()",
        "DEBUG: calling debug_dump()",
    ]


@child(CPU)
def test_generators_are_registered() -> None:
    graph = torch.cuda.CUDAGraph()
    assert graph.register_generator_state(torch.default_generator) is None
    with pytest.raises(TypeError):
        graph.register_generator_state(3)


@child(CPU)
@pytest.mark.skipif(not IN_PARTS, reason="the release has no hooks")
def test_hooks_of_a_graph() -> None:
    graph, seen = torch.cuda.CUDAGraph(), []
    anywhere = torch.cuda.graphs.register_graph_destroy_hook(lambda ids: seen.append(("anywhere", ids)))
    graph.register_destroy_callback(lambda: seen.append("this one"))
    graph.register_destroy_callback(lambda: seen.append("removed")).remove()
    graph.register_capture_start_hook(lambda _: seen.append("a capture that never starts"))
    assert error(graph.capture_begin)[0] == "RuntimeError"
    graph.reset()
    anywhere.remove()
    graph.reset()
    assert seen == [("anywhere", set()), "this one"]


def capture(**options: Any) -> None:
    with torch.cuda.graph(torch.cuda.CUDAGraph(), **options):
        torch.ones(2, device="cuda").add_(1)


def capture_elsewhere(**options: Any) -> None:
    capture(stream=torch.cuda.Stream(device=1), **options)


def graphed_module() -> None:
    module = torch.nn.Linear(2, 2).cuda()
    graphed = torch.cuda.make_graphed_callables(module, (torch.ones(1, 2, device="cuda"),))
    assert torch.equal(graphed(torch.ones(1, 2, device="cuda")), module.forward(torch.ones(1, 2, device="cuda")))


NOT_BEGUN = ("RuntimeError", "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got none")
CAPTURES = {
    "on a new stream": (capture, None),
    "on the stream of another device": (capture_elsewhere, None),
    "of a module": (graphed_module, None),
    "that does not begin": (lambda: capture(capture_error_mode="none"), NOT_BEGUN),
    "that does not begin on another device": (lambda: capture_elsewhere(capture_error_mode="none"), NOT_BEGUN),
}


@child(TWO)
@pytest.mark.parametrize("case", CAPTURES)
def test_a_capture_leaves_device_and_stream_as_they_were(case: str) -> None:
    body, expected = CAPTURES[case]
    if expected is None:
        body()
    else:
        assert error(body) == expected
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)


@child(CPU)
def test_the_error_mode_is_checked() -> None:
    assert error(lambda: capture(capture_error_mode="loud")) == (
        "RuntimeError",
        "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got loud",
    )


@child(CPU)
def test_graphed_callables_are_checked() -> None:
    """By assertions of torch's own."""
    hooked = torch.nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *_: None)
    graphed = torch.cuda.make_graphed_callables
    assert error(lambda: graphed(hooked, (torch.ones(1, 2),)))[0] == "AssertionError"
    assert error(lambda: graphed(abs, (1,)))[0] == "AssertionError"


@child(CPU, alone=True)
def test_pool_ids_share_one_sequence() -> None:
    handles = [torch.cuda.graph_pool_handle(), torch.cuda.MemPool().id, torch.cuda.graph_pool_handle()]
    assert [type(handle) for handle in handles] == [tuple] * 3
    assert handles == [(0, 1), (0, 2), (0, 3)]


# ------------------------------------------------------------------------ jiterator
KERNEL = "template <typename T> T my_kernel(T x, T y, T alpha) { return x + alpha * y; }"


@child(MPS)
def test_a_kernel_is_parsed_and_computes_on_copies() -> None:
    function, x = torch.cuda.jiterator._create_jit_fn(KERNEL, alpha=1.0), torch.ones(2)
    assert function.kernel_name == "my_kernel"
    result = function(x, x, alpha=3.0)
    assert result.is_cuda and result.tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError):
        torch.cuda.jiterator._create_multi_output_jit_fn(KERNEL, 2)(x, x)


@child(CPU)
def test_arguments_of_a_kernel_are_checked_first() -> None:
    function, x = torch.cuda.jiterator._create_jit_fn(KERNEL, alpha=1.0), torch.ones(2)
    with pytest.raises(KeyError):
        function(x, x, beta=2)
    assert error(lambda: function(*[x] * 9)) == (
        "AssertionError",
        "jiterator only supports up to 8 tensor inputs, got 9",
    )


@child(CPU)
def test_several_results_are_not_returned_by_value() -> None:
    assert error(lambda: torch.cuda.jiterator._JittedFunction(KERNEL, return_by_ref=False, num_outputs=2)) == (
        "AssertionError",
        "Return by value only works for single output.",
    )


@child(CPU)
def test_parameters_of_a_template() -> None:
    assert torch.cuda.jiterator._CodeParser(KERNEL).template_params == "<typename T>"


@child(CPU)
def test_code_that_is_no_kernel() -> None:
    with pytest.raises(Exception, match="parse code") as raised:
        torch.cuda.jiterator._create_jit_fn("nope")
    assert type(raised.value) is Exception
    assert str(raised.value) == "Couldn't parse code, please check correctness:\n nope"
