"""Random numbers on the device: stock's functions, except those that the host's generators implement differently."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torchdevice_cuda.drivers import active
from torchdevice_cuda.shadow import stock

stock.execute(globals())

if TYPE_CHECKING:
    from torch.cuda import _lazy_call, _lazy_init, current_device, is_initialized


def _index_of(device: int | str | torch.device) -> int:
    """Return the index of the generator for a device argument."""
    if isinstance(device, str):
        device = torch.device(device)
    elif isinstance(device, int):
        device = torch.device("cuda", device)
    index = device.index
    return current_device() if index is None else index


def get_rng_state(device: int | str | torch.device = "cuda") -> Tensor:
    """Return the state of a device's generator, as a tensor of bytes on the CPU."""
    _lazy_init()
    return active().generator_state(torch.cuda.default_generators[_index_of(device)])


def set_rng_state(new_state: Tensor, device: int | str | torch.device = "cuda") -> None:
    """Restore the state of a device's generator from :func:`get_rng_state`, here or on a CUDA device."""
    if not is_initialized():
        with torch._C._DisableFuncTorch():
            # Applied when the device is initialized: copy it, since the caller may change it before.
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


def manual_seed(seed: int) -> None:
    """Seed the current device's generator. Safe to call without a device: then it does nothing."""
    seed = int(seed)

    def apply() -> None:
        active().seed(torch.cuda.default_generators[current_device()], _checked(seed))

    _lazy_call(apply, seed=True)


def manual_seed_all(seed: int) -> None:
    """Seed all devices' generators. Safe to call without a device: then it does nothing."""
    seed = int(seed)

    def apply() -> None:
        for generator in torch.cuda.default_generators:
            active().seed(generator, _checked(seed))

    _lazy_call(apply, seed_all=True)


def seed() -> None:
    """Seed the current device's generator with a random seed. Safe to call without a device."""

    def apply() -> None:
        active().seed(torch.cuda.default_generators[current_device()], None)

    _lazy_call(apply)


def _checked(seed: int) -> int:
    """Return a seed that fits CUDA's 64 bits; negative ones wrap around."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed
