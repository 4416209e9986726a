"""Random numbers are a GPU's: what one drew, and the rules by which it did."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from harness import child
from recorded import draws, read_record
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from .bare import bare, native

pytestmark = child(bare(2))

#: An H200's multiprocessors and threads.
H200 = (132, 2048)
SMALL = 256


@pytest.mark.parametrize("expression", draws.EXPRESSIONS)
def test_draws_equal_an_h200s(expression: str) -> None:
    there, here = read_record(draws.RECORD)[expression], draws.draw(expression, native().default_generator(0))
    assert draws.find_difference(there, here, SimpleNamespace(name=expression)) is None


# ------------------------------------------------------------------------------ the rules
def _philox(seed: int, step: int, thread: int) -> list[int]:
    """Return the four words that a thread reads at one step of its own."""
    low, counter, key = 0xFFFFFFFF, [step, 0, thread, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(q >> 32) ^ counter[1] ^ key[0], q & low, (p >> 32) ^ counter[3] ^ key[1], p & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return counter


def _unit(word: int) -> float:
    drawn = torch.tensor(float(word), dtype=torch.float32).item() * 2**-32 + 2**-33
    return torch.tensor(drawn, dtype=torch.float32).item()


def _spread(count: int, threads: int, per_thread: int) -> Iterator[tuple[int, int, int]]:
    """Step, thread and which of its numbers, of every element of a launch."""
    for element in range(count):
        turn, thread = divmod(element, threads)
        yield turn // per_thread, thread, turn % per_thread


@contextlib.contextmanager
def _small_gpu() -> Iterator[None]:
    """Return a GPU with SMALL threads in all, so that a launch of a few thousand has several steps."""
    native().set_multiprocessors(1, SMALL)
    try:
        yield
    finally:
        native().set_multiprocessors(*H200)


def _generator(seed: int = 5) -> torch.Generator:
    return torch.Generator("cuda").manual_seed(seed)


@pytest.mark.parametrize("count", [1, 256, 257, 1024, 1025, 3000])
@_small_gpu()
def test_a_launch_is_divided_among_the_threads_that_there_are(count: int) -> None:
    generator = _generator()
    words = [_philox(5, step, thread)[k] for step, thread, k in _spread(count, SMALL, 4)]
    drawn = torch.randint(1000, (count,), device="cuda", generator=generator)
    assert drawn.tolist() == [word % 1000 for word in words]
    assert generator.get_offset() == 4 * math.ceil(count / 1024)
    uniform = torch.rand(count, device="cuda", generator=_generator())
    assert uniform.tolist() == [value if value < 1 else 0.0 for value in map(_unit, words)]


@pytest.mark.parametrize("count", [1, 513, 3000])
@_small_gpu()
def test_wide_numbers_take_two_words(count: int) -> None:
    pairs = [_philox(5, step, thread)[2 * k : 2 * k + 2] for step, thread, k in _spread(count, SMALL, 2)]
    wide = torch.empty(count, device="cuda", dtype=torch.int64).random_(0, 1 << 40, generator=_generator())
    assert wide.tolist() == [(x << 32 | y) % (1 << 40) for x, y in pairs]
    double = torch.rand(count, device="cuda", dtype=torch.float64, generator=_generator())
    assert double.tolist() == [(x ^ y << 21) * 2**-53 + 2**-54 for x, y in pairs]


@pytest.mark.parametrize(("dtype", "near"), [("float32", 4), ("float16", 8), ("float64", 2)])
@_small_gpu()
def test_dropout_draws_for_neighbours(dtype: str, near: int) -> None:
    count = 256 * 2 * near + 8 * near
    generator = native().default_generator(0).manual_seed(5)
    kept = functional.dropout(torch.ones(count, device="cuda", dtype=getattr(torch, dtype)), 0.25) != 0
    expected = []
    for element in range(count):
        turn, thread = divmod(element // near, SMALL)
        block, word = divmod(element % near, 4)
        expected.append(_unit(_philox(5, turn * math.ceil(near / 4) + block, thread)[word]) < 0.75)
    assert kept.tolist() == expected
    assert generator.get_offset() == 4 * math.ceil(count / 1024)


@_small_gpu()
def test_dropout_of_what_does_not_divide_draws_by_place() -> None:
    native().default_generator(0).manual_seed(5)
    kept = functional.dropout(torch.ones(37, 45, device="cuda").t(), 0.25) != 0
    words = [_philox(5, step, thread)[k] for step, thread, k in _spread(37 * 45, SMALL, 4)]
    assert kept.flatten().tolist() == [_unit(word) < 0.75 for word in words]


SPARSE: dict[str, Callable[[], torch.Tensor]] = {
    "every other column": lambda: torch.empty(40, 30, device="cuda")[:, ::2],
    "a part": lambda: torch.empty(60, 40, device="cuda")[3:43, 5:20],
    "three dimensions": lambda: torch.empty(5, 9, 30, device="cuda")[:, 1:9, ::2],
}


@pytest.mark.parametrize("kind", SPARSE)
def test_elements_are_counted_in_the_order_of_the_tensor(kind: str) -> None:
    out = SPARSE[kind]()
    drawn = torch.rand(600, device="cuda", generator=_generator())
    assert torch.equal(out.uniform_(generator=_generator()).flatten(), drawn)


def test_elements_of_a_transposed_tensor_are_counted_in_memory() -> None:
    out = torch.empty(20, 30, device="cuda").t().normal_(generator=_generator())
    assert torch.equal(out.t().flatten(), torch.randn(600, device="cuda", generator=_generator()))


def test_a_chance_for_each_is_drawn_in_the_order_of_both() -> None:
    chances = torch.linspace(0, 1, 600, device="cuda")
    drawn = torch.bernoulli(chances, generator=_generator())
    transposed = chances.view(20, 30).t()
    both = torch.empty(20, 30, device="cuda").t().bernoulli_(transposed, generator=_generator())
    assert torch.equal(both.t().flatten(), drawn)
    # Only one of them is transposed: they are counted by their places.
    one = torch.bernoulli(transposed, generator=_generator())
    assert torch.equal(one, torch.bernoulli(transposed.contiguous(), generator=_generator()))
    whole = torch.empty(20, 30, device="cuda", dtype=torch.int64)
    assert torch.equal(whole.bernoulli_(chances.view(20, 30), generator=_generator()).flatten(), drawn.long())


#: What each moves the generator by.
MOVES: dict[str, tuple[Callable[[], Any], int]] = {
    "nothing to draw": (lambda: torch.rand(0, device="cuda"), 0),
    "one": (lambda: torch.rand(1, device="cuda"), 4),
    "more than one step": (lambda: torch.rand(132 * 2048 * 4 + 1, device="cuda"), 8),
    "doubles, two a step": (lambda: torch.rand(132 * 2048 * 2 + 1, device="cuda", dtype=torch.float64), 8),
    "rand_like": (lambda: torch.rand_like(torch.empty(3, device="cuda")), 4),
    "rand(out=)": (lambda: torch.rand(3, out=torch.empty(3, device="cuda")), 4),
    "normal of tensors": (lambda: torch.normal(torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")), 4),
    "bernoulli of a tensor": (lambda: torch.bernoulli(torch.ones(3, device="cuda")), 12),
    "poisson": (lambda: torch.poisson(torch.ones(3, device="cuda")), 20),
    "binomial": (lambda: torch.binomial(torch.ones(3, device="cuda"), torch.ones(3, device="cuda")), 44),
    "gamma": (lambda: torch._standard_gamma(torch.ones(3, device="cuda")), 12),
    "dirichlet": (lambda: torch._sample_dirichlet(torch.ones(3, device="cuda")), 12),
    "a permutation": (lambda: torch.randperm(101, device="cuda"), 4 + 104),
    "samples with replacement": (lambda: torch.multinomial(torch.ones(5, 3, device="cuda"), 7, True), 4),
    "samples without": (lambda: torch.multinomial(torch.ones(5, 3, device="cuda"), 2), 4),
    "rrelu": (lambda: functional.rrelu(torch.ones(3, device="cuda"), training=True), 4),
    "dropout of channels": (lambda: functional.dropout2d(torch.ones(2, 3, 4, 4, device="cuda")), 4),
    "a layer": (lambda: nn.Linear(3, 3, device="cuda"), 8),
    "attention that drops": (
        lambda: functional.scaled_dot_product_attention(*[torch.ones(2, 3, 5, 8, device="cuda")] * 3, dropout_p=0.5),
        2 * 3 * 5 * 5 + 2,
    ),
    "attention that does not": (
        lambda: functional.scaled_dot_product_attention(*[torch.ones(2, 3, 5, 8, device="cuda")] * 3),
        0,
    ),
}


@pytest.mark.parametrize("what", MOVES)
def test_offsets_after_a_draw(what: str) -> None:
    draw, words = MOVES[what]
    generator = native().default_generator(0).manual_seed(1)
    draw()
    assert generator.get_offset() == words


def test_generators_do_not_know_of_each_other() -> None:
    one, other = _generator(), _generator()
    first = [torch.rand(3, device="cuda", generator=one) for _ in range(2)]
    assert torch.equal(torch.rand(3, device="cuda", generator=other), first[0])
    assert torch.equal(torch.rand(3, device="cuda", generator=other), first[1])
    second = native().default_generator(1).manual_seed(5)
    assert torch.equal(torch.rand(3, device="cuda:1").cpu(), first[0].cpu())
    assert second.get_offset() == 4


def test_two_halves_are_not_a_whole() -> None:
    generator = _generator()
    halves = torch.cat([torch.rand(500, device="cuda", generator=generator) for _ in range(2)])
    whole = torch.rand(1000, device="cuda", generator=_generator())
    assert torch.equal(halves[:500], whole[:500])
    assert not torch.equal(halves, whole)


def _many() -> list[torch.Tensor]:
    native().default_generator(0).manual_seed(9)
    size = 1 << 20
    return [
        torch.randn(size, device="cuda"),
        torch.randint(7, (size,), device="cuda"),
        functional.dropout(torch.ones(size, device="cuda")),
        torch.bernoulli(torch.full((size,), 0.3, device="cuda")),
        torch.poisson(torch.full((20_000,), 3.0, device="cuda")),
    ]


def test_numbers_do_not_depend_on_the_host_s_threads() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = _many()
    torch.set_num_threads(4)
    together = _many()
    torch.set_num_threads(threads)
    assert all(map(torch.equal, alone, together))


def test_normal_numbers_are_normal() -> None:
    drawn = torch.randn(1 << 20, device="cuda", generator=_generator()).cpu()
    assert abs(drawn.mean().item()) < 5e-3
    assert abs(drawn.std().item() - 1) < 5e-3
    assert abs((drawn**4).mean().item() - 3) < 3e-2
    assert math.isclose((drawn.abs() < 1.96).double().mean().item(), 0.95, abs_tol=2e-3)


def test_rates_between_the_methods() -> None:
    for rate in (63.0, 200.0, 3000.0, 5000.0):
        drawn = torch.poisson(torch.full((20_000,), rate, device="cuda"), generator=_generator()).cpu()
        assert math.isclose(drawn.mean().item(), rate, abs_tol=5 * math.sqrt(rate / 20_000))
        assert math.isclose(drawn.var().item(), rate, rel_tol=0.05)


def test_permutations_that_have_equal_keys() -> None:
    # Keys have as many bits as make equal ones happen in one of ten.
    found = [torch.randperm(2000, device="cuda", generator=_generator(seed)) for seed in range(40)]
    assert all(sorted(one.tolist()) == list(range(2000)) for one in found)
    halves = torch.randperm(300, device="cuda", dtype=torch.float16, generator=_generator())
    assert torch.equal(halves.long(), torch.randperm(300, device="cuda", generator=_generator()))


# ------------------------------------------------------------------------------ states
def _refusal(device: str, state: Any) -> tuple[str, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (what it is, is compared)
        torch.Generator(device).set_state(state)
    return type(caught.value).__name__, str(caught.value)


STATES: dict[str, Any] = {
    "a list": [1, 2],
    "of floats": torch.zeros(16),
    "with gaps": torch.zeros(32, dtype=torch.uint8)[::2],
}


@pytest.mark.parametrize("state", STATES)
def test_states_of_a_wrong_kind_are_refused_as_everywhere(state: str) -> None:
    assert _refusal("cuda", STATES[state]) == _refusal("cpu", STATES[state])


def test_a_state_is_sixteen_bytes() -> None:
    generator = _generator(1 << 40 | 3)
    torch.rand(3, device="cuda", generator=generator)
    assert struct.unpack("<QQ", bytes(generator.get_state().tolist())) == (1 << 40 | 3, 4)
    with pytest.raises(RuntimeError, match="^offset must be a multiple of 4"):
        generator.set_offset(3)


def test_checkpoints_draw_again_what_they_drew() -> None:
    x = torch.ones(1000, device="cuda", requires_grad=True)
    out = checkpoint(functional.dropout, x, use_reentrant=False)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
