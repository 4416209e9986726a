"""Random numbers on the device: seeds and states of the default generators."""

from collections.abc import Iterable

import torch
from torch import Tensor

from torchdevice_cuda.drivers import active

from . import _lazy_call, _lazy_init, current_device, device_count, is_initialized

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "set_rng_state",
    "set_rng_state_all",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
]


def _index_of(device: int | str | torch.device) -> int:
    """The index of the generator that a device argument means."""
    if isinstance(device, str):
        device = torch.device(device)
    elif isinstance(device, int):
        device = torch.device("cuda", device)
    index = device.index
    return current_device() if index is None else index


def get_rng_state(device: int | str | torch.device = "cuda") -> Tensor:
    """The state of a device's generator, as a byte tensor. Initialises the device."""
    _lazy_init()
    return torch.cuda.default_generators[_index_of(device)].get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Tensor, device: int | str | torch.device = "cuda") -> None:
    """Put a device's generator into a state that :func:`get_rng_state` gave, here or on a CUDA device."""
    if not is_initialized():
        with torch._C._DisableFuncTorch():
            # Applied when the device is initialised: keep what it is now, not what the caller makes of it later.
            new_state = new_state.clone(memory_format=torch.contiguous_format)
    if isinstance(device, str):
        device = torch.device(device)
    elif isinstance(device, int):
        device = torch.device("cuda", device)

    def apply() -> None:
        generator = torch.cuda.default_generators[_index_of(device)]
        if new_state.dtype != torch.uint8 or new_state.device.type != "cpu":
            raise TypeError("RNG state must be a torch.ByteTensor")
        active().set_generator_state(generator, new_state)

    _lazy_call(apply)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Put all devices' generators into states that :func:`get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator. Safe to call without a device: then it does nothing."""
    seed = int(seed)

    def apply() -> None:
        torch.cuda.default_generators[current_device()].manual_seed(_checked(seed))

    _lazy_call(apply, seed=True)


def manual_seed_all(seed: int) -> None:
    """Seed all devices' generators. Safe to call without a device: then it does nothing."""
    seed = int(seed)

    def apply() -> None:
        for generator in torch.cuda.default_generators:
            generator.manual_seed(_checked(seed))

    _lazy_call(apply, seed_all=True)


def _checked(seed: int) -> int:
    """A seed that fits CUDA's 64 bits, negative ones counted from the top."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed


def seed() -> None:
    """Seed the current device's generator with a number nobody chose."""

    def apply() -> None:
        torch.cuda.default_generators[current_device()].seed()

    _lazy_call(apply)


def seed_all() -> None:
    """Seed all devices' generators with the same number, which nobody chose."""

    def apply() -> None:
        chosen = None
        for generator in torch.cuda.default_generators:
            if chosen is None:
                chosen = generator.seed()
            else:
                generator.manual_seed(chosen)

    _lazy_call(apply)


def initial_seed() -> int:
    """The seed of the current device's generator. Initialises the device."""
    _lazy_init()
    return torch.cuda.default_generators[current_device()].initial_seed()
