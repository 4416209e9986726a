"""The generator: CUDA's visible state, reproducible draws, separate from the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import child
from torch.nn.functional import dropout

from .bare import bare, native

pytestmark = child(bare(2))


def _generator(seed: int = 42) -> torch.Generator:
    return torch.Generator(device="cuda").manual_seed(seed)


def _drawn(generator: torch.Generator, count: int = 4) -> list[float]:
    return torch.rand(count, device="cuda", generator=generator).tolist()


def test_its_device_and_seed() -> None:
    generator = torch.Generator(device="cuda")
    assert str(generator.device) == "cuda"
    assert generator.manual_seed(42) is generator
    assert generator.initial_seed() == 42


def test_its_state_is_a_seed_and_an_offset() -> None:
    state = _generator().get_state()
    assert state.shape == (16,)
    assert state.dtype is torch.uint8
    assert state.device.type == "cpu"
    assert state.view(torch.int64).tolist() == [42, 0]


def test_draws_move_the_offset() -> None:
    generator = _generator()
    assert generator.get_offset() == 0
    first = _drawn(generator)
    assert generator.get_offset() == 4
    assert _drawn(generator) != first
    assert generator.get_offset() == 8


def test_large_draws_move_it_further() -> None:
    generator = _generator()
    torch.rand(1 << 21, device="cuda", generator=generator)
    assert generator.get_offset() % 4 == 0
    assert generator.get_offset() > 4


def test_a_state_is_set() -> None:
    generator = _generator()
    state = generator.get_state()
    first = _drawn(generator)
    generator.set_state(state)
    assert _drawn(generator) == first


def test_an_offset_is_set() -> None:
    generator = _generator()
    _drawn(generator)
    second = _drawn(generator)
    generator.set_offset(4)
    assert _drawn(generator) == second


def test_the_default_generator_draws_as_any_other() -> None:
    native().default_generator(0).manual_seed(9)
    assert torch.rand(8, device="cuda").tolist() == _drawn(_generator(9), 8)


def test_operators_without_a_generator_draw_from_the_default_one() -> None:
    ones, default = torch.ones(64, device="cuda"), native().default_generator(0)
    default.manual_seed(4)
    first = dropout(ones)
    default.manual_seed(4)
    assert torch.equal(dropout(ones), first)


def test_neither_disturbs_the_other() -> None:
    torch.manual_seed(1)
    first = torch.rand(4)
    torch.manual_seed(1)
    torch.rand(100, device="cuda")
    dropout(torch.ones(8, device="cuda"))
    assert torch.equal(torch.rand(4), first)


def test_permutations() -> None:
    first = torch.randperm(10, device="cuda", generator=_generator(2))
    assert sorted(first.tolist()) == list(range(10))
    assert torch.equal(torch.randperm(10, device="cuda", generator=_generator(2)), first)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "for the CPU": (
        lambda: torch.rand(3, generator=_generator()),
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "of the CPU": (
        lambda: torch.rand(3, device="cuda", generator=torch.Generator()),
        "Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    "state": (lambda: _generator().set_state(torch.zeros(3, dtype=torch.uint8)), "RNG state is wrong size"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_invalid_states_are_refused(refused: str) -> None:
    function, words = REFUSED[refused]
    with pytest.raises(RuntimeError) as caught:
        function()
    assert str(caught.value) == words


def test_each_device_has_its_own() -> None:
    assert native().default_generator(1) is not native().default_generator(0)
    assert str(native().default_generator(1).device) == "cuda:1"
