"""Code of the program inside compiled graphs: it sees the program's device, and the numbers are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from harness import MPS_FAITHFUL, STOCK, VIRTUAL, child, in_child

from .program_operators import DEVICE, library, numbers, seen

ops: Any = torch.ops.program
#: All tests share a child, as one of them needs two GPUs.
TWO = VIRTUAL.with_settings(devices=2)
as_on_stock = child(TWO, MPS_FAITHFUL.rarely(), as_in=STOCK, seconds=300)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    seen.clear()
    if DEVICE == "cpu":  # what is expected needs no code of inductor's, whose compilation takes most of the time
        options.setdefault("backend", "aot_eager")
    compiled: Callable[..., Any] = torch.compile(function, fullgraph=True, **options)
    return compiled


def _values(*made: Any) -> Any:
    """Return the values of tensors, and check that they are on the program's device."""

    def value(each: Any) -> Any:
        return [each.device.type == DEVICE, each.tolist()] if isinstance(each, torch.Tensor) else each

    return pytree.tree_map(value, list(made))


@as_on_stock
def test_an_operator_for_one_device_is_called() -> Any:
    return _values(_compiled(lambda x: ops.cuda_only(x * 2) + 1)(numbers()))


@as_on_stock
def test_operators_are_called_in_both_passes() -> Any:
    x = numbers().requires_grad_()
    y = _compiled(lambda x: (ops.twice(x + 1) * ops.twice(x)).sum())(x)
    y.backward()
    return _values(y.detach(), x.grad)


@pytest.mark.slow
@as_on_stock
def test_operators_take_and_give_several() -> Any:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return ops.several(x + 1, 3, "ab", None, [x, y * 2]), ops.several(x, 2, "", y, [])[0]

    return _values(*_compiled(function)(numbers(), numbers(3, 4) + 1))


@as_on_stock
def test_operators_write_into_the_given_memory() -> Any:
    out, more = torch.zeros(5, 4, device=DEVICE), torch.zeros(2, device=DEVICE)

    def function(x: torch.Tensor, out: torch.Tensor, more: torch.Tensor) -> Any:
        own = torch.zeros_like(x)
        total = ops.write(x + 1, out[1:4], [more, out[0]])
        ops.write(x, own, [])
        ops.scale_(own, x.shape[0], k=0.5)
        return total, own, out * 2

    made = _compiled(function)(numbers(), out, more)
    assert seen[0] == out[1:].data_ptr() or DEVICE == "cpu"
    return _values(*made, out, more)


@pytest.mark.slow
@as_on_stock
def test_an_operator_is_given_the_devices_name() -> Any:
    return _values(_compiled(lambda x: x + ops.make(4, x.device))(numbers()))


@as_on_stock
def test_shapes_may_change_and_depend_on_numbers() -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        return ops.twice(x[1:]).sum() * x.shape[0] + ops.choose(x + 1).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = _compiled(function, dynamic=True)
        return _values(*(compiled(numbers(rows, 4)) for rows in (3, 7, 5)))


@as_on_stock
def test_tensors_of_the_host_stay_its() -> Any:
    moved, host = _compiled(lambda x, host: ops.beside(x * 2, host + 1))(numbers(), torch.ones(3))
    assert host.device.type == "cpu"
    return _values(moved, host.tolist())


@as_on_stock
def test_side_effects_keep_their_order() -> Any:
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    handle = _register_effectful_op(ops.note.default, _EffectType.ORDERED)
    made = _compiled(lambda x: ops.note(ops.note(x, "first") * 2, "second"))(numbers())
    if handle is not None:
        handle.destroy()
    return _values(made, seen)


@as_on_stock
def test_control_flow_calls_operators() -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    def choose(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: ops.twice(x), lambda x: ops.cuda_only(x), (x,))

    def repeat(x: torch.Tensor) -> Any:
        begin = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, ops.twice(x)), (begin, x))

    choosing = _compiled(choose)
    with torch.no_grad():
        return _values(choosing(numbers()), choosing(-numbers()), *_compiled(repeat)(numbers()))


@pytest.mark.slow
@as_on_stock
def test_regions_that_are_compiled_once_call_operators() -> Any:
    region = torch.compiler.nested_compile_region(lambda x: ops.twice(x) + 1)
    return _values(_compiled(lambda x: region(region(x) * 3))(numbers()))


@pytest.mark.slow
@as_on_stock
def test_constants_of_the_device() -> Any:
    return _values(_compiled(lambda x: x + ops.twice(torch.tensor([1.0, 2, 3, 4], device=x.device)))(numbers()))


@as_on_stock
def test_functions_with_gradients_of_their_own_call_operators() -> Any:
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            assert x.device.type == DEVICE
            return ops.cuda_only(x)  # type: ignore[no-any-return]

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            assert g.device.type == DEVICE
            return ops.twice_backward(g)  # type: ignore[no-any-return]

    x = numbers().requires_grad_()
    _compiled(lambda x: Function.apply(x * 2).sum())(x).backward()
    return _values(x.grad)


@pytest.mark.slow
@as_on_stock
def test_passes_of_the_program_see_its_operators() -> Any:
    from torch._inductor import config

    def replace(graph: Any) -> None:
        for node in graph.find_nodes(op="call_function", target=ops.cuda_only.default):
            node.target = ops.twice.default

    made = []
    for name in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"):
        with config.patch({name: replace}), torch.no_grad():
            made.append(_compiled(lambda x: ops.cuda_only(x * 3) + 1, backend="inductor")(numbers()))
    return _values(*made)


@child(TWO, seconds=300)
def test_results_are_not_copied_and_the_host_is_the_host() -> None:
    """Memory is counted as it is without compiled code around."""
    address: list[int] = []

    def make(x: torch.Tensor) -> torch.Tensor:
        before = torch.cuda.memory_allocated()
        host = torch.zeros(1 << 18)
        assert torch.cuda.memory_allocated() == before, "a tensor of the CPU is in the device's memory"
        made = x + host[0].item()
        address.append(made.data_ptr())
        return made

    library.define("own_memory(Tensor x) -> Tensor")
    library.impl("own_memory", make, "CompositeExplicitAutograd")
    torch.library.register_fake("program::own_memory", torch.empty_like, lib=library)
    x = torch.ones(1 << 16, device="cuda")
    compiled = _compiled(lambda x: ops.own_memory(x + 1))
    out = compiled(x)
    before = torch.cuda.memory_allocated()
    out = compiled(x)
    assert out.data_ptr() == address[-1]
    assert torch.cuda.memory_allocated() == before
    del out
    assert torch.cuda.memory_allocated() == before - x.nbytes


@child(TWO, seconds=300)
def test_the_present_device_is_the_graphs() -> None:
    found: list[Any] = []

    def tell(x: torch.Tensor) -> torch.Tensor:
        found.append((x.device.index, torch.cuda.current_device(), torch.zeros(1, device="cuda").device.index))
        return x + 1

    library.define("tell(Tensor x) -> Tensor")
    library.impl("tell", tell, "CompositeExplicitAutograd")
    torch.library.register_fake("program::tell", torch.empty_like, lib=library)
    out = _compiled(lambda x: ops.tell(x * 2))(torch.ones(4, device="cuda:1"))
    assert out.device == torch.device("cuda:1") and out.tolist() == [3.0] * 4
    assert found == [(1, 1, 1)]
    assert torch.cuda.current_device() == 0


@child(TWO, seconds=300)
def test_random_numbers_of_an_operator_are_the_programs() -> None:
    """Compiled code that draws has the device's seed in the CPU's generator; an operator in it draws as ever."""

    def draw(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(4).to(x.device)

    library.define("draw(Tensor x) -> Tensor")
    library.impl("draw", draw, "CompositeExplicitAutograd")
    torch.library.register_fake("program::draw", torch.empty_like, lib=library)
    x = torch.zeros(4, device="cuda")
    compiled = _compiled(lambda x: (torch.rand_like(x), ops.draw(x)))
    compiled(x)
    torch.manual_seed(3)
    expected = [torch.rand(4).tolist() for _ in range(2)]
    torch.manual_seed(3)
    assert [compiled(x)[1].tolist() for _ in range(2)] == expected


@child(TWO, seconds=300)
@pytest.mark.parametrize("captured", [False, True])
def test_graphs_replay_operators(captured: bool) -> None:
    x = numbers()
    compiled = _compiled(lambda x: ops.twice(x * 3) + 1, **({} if captured else {"mode": "reduce-overhead"}))
    with torch.no_grad():
        compiled(x)
        if not captured:
            for i in range(4):
                assert torch.equal(compiled(x + i), (x + i) * 6 + 1)
            return
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x)
        for i in range(2):
            x.fill_(i + 1)
            graph.replay()
            assert torch.equal(y, x * 6 + 1)


def _branches() -> list[Any]:
    """Compare a function on the CPU and on the device; return the hits of inductor's cache."""
    from torch._dynamo.utils import counters

    compiled = _compiled(lambda x: ops.branch(x * 2))
    made = [compiled(torch.ones(2, device=device)).tolist() for device in ("cpu", "cuda")]
    return [made, counters["inductor"]["fxgraph_cache_hit"]]


@pytest.mark.native
@pytest.mark.slow
def test_code_that_is_kept_is_for_one_device(tmp_path: Path) -> None:
    place = VIRTUAL.within(TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    made = [[102.0, 102.0], [3.0, 3.0]]
    assert [in_child(_branches, place, seconds=300) for _ in range(2)] == [[made, 0], [made, 2]]
