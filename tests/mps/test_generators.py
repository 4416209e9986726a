"""Generators of the Apple GPU, which have CUDA's states to the program: 16 bytes, a seed and an offset."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
import torch
from harness import MPS, MPS_FAITHFUL, VIRTUAL, child
from torch.utils.checkpoint import checkpoint

from torchdevice_cuda.drivers import active

everywhere = child(VIRTUAL, MPS_FAITHFUL)
#: The same, where tensors and generators say that they are MPS's.
NATIVE = MPS_FAITHFUL.with_settings(identity="native")


def _drawn(generator: torch.Generator | None = None) -> list[float]:
    drawn: list[float] = torch.rand(3, device="cuda", generator=generator).tolist()
    return drawn


def _state(seed: int, offset: int) -> list[int]:
    return [*seed.to_bytes(8, "little"), *offset.to_bytes(8, "little")]


@everywhere
def test_states_are_a_seed_and_an_offset() -> None:
    generator = torch.Generator("cuda").manual_seed(5)
    assert generator.get_state().tolist() == _state(5, 0)
    first = _drawn(generator)
    assert generator.get_state().tolist() == _state(5, 4)
    assert (generator.get_offset(), generator.initial_seed()) == (4, 5)
    kept = generator.get_state()
    second = _drawn(generator)
    assert generator.set_state(kept) is generator
    assert _drawn(generator) == second != first
    assert generator.set_offset(0) is generator
    assert _drawn(generator) == first
    torch.cuda.manual_seed(7)
    assert torch.cuda.get_rng_state().tolist() == _state(7, 0)
    _drawn()
    assert [state.tolist() for state in torch.cuda.get_rng_state_all()] == [_state(7, 4)]
    assert torch.Generator("cuda").manual_seed(-1).get_state().tolist() == _state((1 << 64) - 1, 0)


@everywhere
def test_a_state_of_cudas_is_taken() -> None:
    """As a checkpoint of a run on CUDA holds it."""
    state = torch.tensor(_state(11, 40), dtype=torch.uint8).cpu()
    draws = []
    for restore in (torch.cuda.set_rng_state, lambda state: torch.cuda.set_rng_state_all([state])):
        restore(state)
        assert torch.cuda.get_rng_state().tolist() == _state(11, 40)
        draws.append(_drawn())
    draws.append(_drawn(torch.Generator("cuda").set_state(state)))
    assert draws[0] == draws[1] == draws[2]
    old = torch.Generator("cuda").set_state(torch.tensor(_state(11, 0)[:8], dtype=torch.uint8).cpu())
    assert old.get_state().tolist() == _state(11, 0)


WRONG: dict[str, tuple[Callable[[torch.Generator], object], str]] = {
    "size": (lambda one: one.set_state(torch.zeros(17, dtype=torch.uint8).cpu()), "RNG state is wrong size"),
    "dtype": (lambda one: one.set_state(torch.zeros(16).cpu()), "RNG state must be a torch.ByteTensor"),
    "list": (lambda one: one.set_state([1]), "expected a torch.ByteTensor, but got list"),  # type: ignore[arg-type]
    "strides": (
        lambda one: one.set_state(torch.zeros(32, dtype=torch.uint8).cpu()[::2]),
        "RNG state must be contiguous",
    ),
    "offset": (lambda one: one.set_offset(5), "offset must be a multiple of 4"),
    "offset of a state": (
        lambda one: one.set_state(torch.tensor(_state(1, 5), dtype=torch.uint8).cpu()),
        "offset must be a multiple of 4",
    ),
    "no offset": (lambda one: one.set_offset("a"), "expected a long, but got str"),  # type: ignore[arg-type]
    "beyond": (lambda one: one.set_offset(1 << 64), "Overflow when unpacking long"),
    "no generator": (lambda one: one.graphsafe_set_state(None), "expected a Generator, but got NoneType"),  # type: ignore[arg-type]
}


@child(VIRTUAL, MPS_FAITHFUL)
@pytest.mark.parametrize("name", WRONG)
def test_errors_are_cudas(name: str) -> None:
    generator = torch.Generator("cuda").manual_seed(3).set_offset(8)
    call, words = WRONG[name]
    with pytest.raises((RuntimeError, TypeError, ValueError), match=words):
        call(generator)
    assert generator.get_state().tolist() == _state(3, 8)


@everywhere
def test_copies_and_pickles() -> None:
    generator = torch.Generator("cuda").manual_seed(9).set_offset(16)
    clone = generator.clone_state()
    loaded = pickle.loads(pickle.dumps(generator))
    assert clone.device == loaded.device == generator.device
    assert clone.get_state().tolist() == loaded.get_state().tolist() == _state(9, 16)
    assert _drawn(clone) == _drawn(loaded) == _drawn(generator)
    _drawn(clone)
    assert (clone.get_offset(), generator.get_offset()) == (24, 20)


@everywhere
def test_a_state_can_be_shared() -> None:
    generator, other = torch.Generator("cuda").manual_seed(5), torch.Generator("cuda").manual_seed(9)
    shared = generator.graphsafe_get_state()
    assert shared is not generator
    _drawn(generator)
    assert shared.get_offset() == generator.get_offset() == 4
    assert generator.graphsafe_set_state(other) is generator
    assert (generator.initial_seed(), shared.initial_seed(), shared.get_offset()) == (9, 5, 4)
    _drawn(generator)
    assert (other.get_offset(), generator.get_offset(), shared.get_offset()) == (4, 4, 4)
    generator.graphsafe_set_state(shared)
    assert (generator.initial_seed(), generator.get_offset(), other.get_offset()) == (5, 4, 4)
    shared.manual_seed(77)
    assert generator.initial_seed() == 77
    generator.graphsafe_set_state(generator.graphsafe_get_state())
    third = generator.graphsafe_get_state()
    generator.graphsafe_set_state(other)
    assert (shared.initial_seed(), third.initial_seed()) == (77, 77)
    third.manual_seed(78)
    assert (shared.initial_seed(), generator.initial_seed()) == (78, 9)


@everywhere
def test_the_default_generators_state_can_be_lent() -> None:
    """As a compiled function draws from a state of its own."""
    default, lent = torch.cuda.default_generators[0], torch.Generator("cuda").manual_seed(21)
    expected = [_drawn(torch.Generator("cuda").manual_seed(21)), _drawn(torch.Generator("cuda").manual_seed(4))]
    torch.cuda.manual_seed(4)
    kept = default.graphsafe_get_state()
    default.graphsafe_set_state(lent)
    drawn = [_drawn()]
    default.graphsafe_set_state(kept)
    assert [*drawn, _drawn()] == expected
    assert (lent.get_offset(), default.get_offset()) == (4, 4)


@everywhere
def test_blocks_and_checkpoints_restore_states() -> None:
    torch.cuda.manual_seed(3)
    with torch.random.fork_rng(devices=[0]):
        inner = _drawn()
    assert _drawn() == inner

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    for reentrant in (True, False):
        x = torch.ones(64, device="cuda", requires_grad=True)
        y = checkpoint(dropped, x, use_reentrant=reentrant)
        y.sum().backward()
        assert x.grad is not None
        assert torch.equal(x.grad, y.detach())


@child(MPS_FAITHFUL)
def test_torchs_own_form_is_taken_and_kept() -> None:
    torch.mps.manual_seed(6)
    own = torch.mps.get_rng_state()
    assert own.numel() == 44
    first = _drawn()
    torch.cuda.set_rng_state(own)
    assert torch.cuda.get_rng_state().tolist() == _state(6, 0)
    assert _drawn() == first


@pytest.mark.slow
@child(NATIVE)
def test_states_of_undisguised_generators() -> None:
    torch.cuda.manual_seed(8)
    _drawn()
    state = torch.cuda.get_rng_state()
    assert state.tolist() == _state(8, 4)
    second = _drawn()
    torch.cuda.set_rng_state(state)
    assert _drawn() == second
    assert active().state_offset(torch.cuda.default_generators[0]) == 8


@pytest.mark.slow
@child(MPS)
def test_a_state_that_went_to_the_gpu_unasked() -> None:
    state = torch.tensor(_state(12, 4), dtype=torch.uint8)
    assert torch.Generator("cuda").set_state(state).get_state().tolist() == _state(12, 4)


@child(VIRTUAL, MPS_FAITHFUL)
def test_offsets_as_distributed_tensors_read_them() -> None:
    torch.cuda.manual_seed(31)
    _drawn()
    state = torch.cuda.get_rng_state()
    seed, offset = state[:8].view(torch.int64).item(), state[8:].view(torch.int64).item()
    assert (seed, offset) == (31, 4)
    state[8:] = torch.tensor([64], dtype=torch.int64).view(torch.uint8)
    torch.cuda.set_rng_state(state)
    assert torch.cuda.default_generators[0].get_offset() == 64
