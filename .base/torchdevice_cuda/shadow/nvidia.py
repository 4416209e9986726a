"""Which NVIDIA devices run code built for which architecture, as torch.cuda publishes it."""

from __future__ import annotations

import dataclasses

_EXCEPTIONS = {50: {53}, 52: {53}, 60: {62}, 61: {62}, 70: {72}, 80: {87}, 86: {87}, 100: {101}}
_EXACT = {53: {53}, 62: {62}, 72: {72}, 87: {87}, 101: {101, 110}}
_FROM = (50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121)
_X86 = frozenset({75, 80, 86, 90, 100, 120})
_ARM = frozenset({80, 90, 100, 110, 120})


def _dotted(capability: int) -> str:
    return f"{capability // 10}.{capability % 10}"


@dataclasses.dataclass(frozen=True)
class CompatInterval:
    """Devices from one capability to the end of its major version, less exceptions."""

    start: int
    exclude: frozenset[int] = frozenset()

    def __contains__(self, capability: int) -> bool:
        same_major = capability // 10 == self.start // 10
        return same_major and capability >= self.start and capability not in self.exclude

    def __str__(self) -> str:
        text = f">={_dotted(self.start)},<{self.start // 10 + 1}.0"
        if self.exclude:
            text += f" except {{{', '.join(_dotted(value) for value in self.exclude)}}}"
        return text


@dataclasses.dataclass(frozen=True)
class CompatSet:
    """Just these devices."""

    values: frozenset[int]

    def __contains__(self, capability: int) -> bool:
        return capability in self.values

    def __str__(self) -> str:
        return "{" + ", ".join(_dotted(value) for value in self.values) + "}"


DEVICE_REQUIREMENT: dict[int, CompatInterval | CompatSet] = dict(
    sorted(
        {
            **{code: CompatInterval(code, frozenset(_EXCEPTIONS.get(code, ()))) for code in _FROM},
            **{code: CompatSet(frozenset(devices)) for code, devices in _EXACT.items()},
        }.items()
    )
)

RELEASES: dict[str, dict[str, set[int]]] = {
    "12.6": {"x86_64": {50, 60, 70, 75, 80, 86, 90}, "aarch64": {80, 90}},
    "12.9": {"x86_64": set(_X86), "aarch64": set(_ARM - {110})},
    "13.0": {"x86_64": set(_X86), "aarch64": set(_ARM)},
    "13.2": {"x86_64": set(_X86), "aarch64": set(_ARM)},
}
