"""Libraries for which CUDA is not available, since their code for CUDA runs on NVIDIA's hardware only.

Each has a portable branch behind ``torch.cuda.is_available()``, or reports itself that it needs CUDA: that is clearer
than a kernel that cannot be started.
"""

from __future__ import annotations

#: The reasons, by the imported name.
REASONS = {
    "apex": "its fused kernels are compiled for CUDA",
    "bitsandbytes": "it loads its CUDA library where CUDA answers, and its CPU library where it does not",
    "causal_conv1d": "its kernels are compiled for CUDA; models have their own convolution without them",
    "flash_attn": "its kernels are compiled for CUDA; torch's attention computes the same",
    "mamba_ssm": "its kernels are Triton's and CUDA's; models have a slow path without them",
    "xformers": "its attention is compiled for CUDA or Triton's; torch's computes the same",
}
DEFAULT = tuple(REASONS)
#: Words in a list: the libraries of the table; none.
ALL_OF_THEM, NOBODY = "default", "none"


def read(text: str) -> tuple[str, ...]:
    """Return the names of a list, in order and without duplicates."""
    names: list[str] = []
    entries = [entry.strip() for entry in text.split(",")]
    if entries == [NOBODY]:
        return ()
    for entry in entries:
        if entry == NOBODY or not all(part.isidentifier() for part in entry.split(".")):
            raise ValueError(text)
        names += DEFAULT if entry == ALL_OF_THEM else [entry]
    return tuple(dict.fromkeys(names))


def write(names: tuple[str, ...]) -> str:
    """Write the list."""
    return ",".join(names) or NOBODY


def is_of(module: object, names: tuple[str, ...]) -> bool:
    """Return whether a module belongs to one of these libraries."""
    return isinstance(module, str) and any(module == name or module.startswith(f"{name}.") for name in names)
