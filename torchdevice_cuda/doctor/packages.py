"""Installed packages, by their metadata: nothing is imported."""

from __future__ import annotations

import functools
import re
from importlib import metadata

#: Packages that also change torch's devices, and what each does. Two at once undo each other.
RIVALS = {
    "habana-torch-plugin": "sends torch.cuda to Gaudi",
    "intel-extension-for-pytorch": "changes operators and devices of torch",
    "torch-directml": "adds a device, and changes how tensors move",
    "torch-mlu": "sends torch.cuda to an MLU",
    "torch-musa": "sends torch.cuda to MUSA",
    "torch-npu": "sends torch.cuda to an NPU",
    "torchada": "sends torch.cuda to other GPUs",
    "torchdevice": "sends torch.cuda to MPS by patches of its own",
}
#: Packages compiled against one release of torch, which they require.
_COMPILED = ("torchaudio", "torchtext", "torchvision", "torch-scatter", "torchcodec")
_REQUIRES = re.compile(r"torch\s*\(?\s*==\s*([\w.+!]+)")
_NVIDIA = "nvidia-"


def spelled(name: str) -> str:
    """Return the normalized name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def _installed() -> dict[str, list[metadata.Distribution]]:
    """Return every distribution on the path, by name; the first one counts."""
    found: dict[str, list[metadata.Distribution]] = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:  # the remains of a failed installation have none
            found.setdefault(spelled(name), []).append(one)
    return found


def version(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    found = _installed().get(name)
    return found[0].version if found else None


def places(name: str) -> list[str]:
    """Return the folders that contain a package, each once."""
    return list(dict.fromkeys(str(one.locate_file("")) for one in _installed().get(name, [])))


def rivals() -> list[str]:
    """Return installed packages that also change torch's devices."""
    return [name for name in RIVALS if name in _installed()]


def backends() -> list[str]:
    """Return the backends that torch loads when it is imported: name and package."""
    return [f"{one.name} ({one.value})" for one in metadata.entry_points(group="torch.backends")]


def for_another_torch(torch: str) -> list[tuple[str, str]]:
    """Return compiled packages that require another torch than this version, and the torch that they are for."""
    public = torch.partition("+")[0]
    found = []
    for name in _COMPILED:
        for one in _installed().get(name, [])[:1]:
            wanted = [match[1] for line in one.requires or () if (match := _REQUIRES.match(line))]
            if wanted and wanted[0].partition("+")[0] != public:
                found.append((f"{name} {one.version}", wanted[0]))
    return found


def nvidia() -> tuple[int, int]:
    """Return the number of packages of NVIDIA's libraries, and their bytes."""
    found = [one for name, (one, *_) in _installed().items() if name.startswith(_NVIDIA) and name != "nvidia-ml-py"]
    return len(found), sum(file.size or 0 for one in found for file in one.files or ())
