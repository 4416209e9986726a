"""NCCL's options. They are stored, shown and copied, without effect on the host."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Backend

#: ``NCCL_CONFIG_UNDEF_INT``.
_UNDEFINED = -(2**31)
#: The fields of the newest release's ``NCCLConfig``, and their defaults.
_CONFIG: dict[str, int | str | None] = {
    "blocking": _UNDEFINED,
    "cga_cluster_size": _UNDEFINED,
    "min_ctas": _UNDEFINED,
    "max_ctas": _UNDEFINED,
    "net_name": None,
    "split_share": _UNDEFINED,
    "traffic_class": _UNDEFINED,
    "collnet_enable": _UNDEFINED,
    "cta_policy": _UNDEFINED,
    "nvls_ctas": _UNDEFINED,
    "max_p2p_peers": _UNDEFINED,
}
#: NCCL's groups have a shorter timeout than others.
TIMEOUT = timedelta(minutes=10)


class NCCLConfig:
    """``ncclConfig_t``: NCCL's configuration."""

    __slots__ = tuple(_CONFIG)

    def __init__(self) -> None:
        for name, value in _CONFIG.items():
            setattr(self, name, value)

    def unsafe_get_ptr(self) -> int:
        """Return an address, which nothing here can read."""
        return id(self)

    def __copy__(self) -> NCCLConfig:
        made = NCCLConfig()
        for name in _CONFIG:
            setattr(made, name, getattr(self, name))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> NCCLConfig:
        return self.__copy__()


class Options(Backend.Options):
    """``ProcessGroupNCCL.Options``."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        super().__init__("nccl", TIMEOUT)
        self.is_high_priority_stream = is_high_priority_stream
        self.config = NCCLConfig()
        self.split_from: Any = None
        self.split_color = 0
        self.use_pg_for_symm_mem_rendezvous = False

    def __copy__(self) -> Options:
        made = Options(self.is_high_priority_stream)
        made.config = self.config.__copy__()
        made.split_from, made.split_color = self.split_from, self.split_color
        made.use_pg_for_symm_mem_rendezvous = self.use_pg_for_symm_mem_rendezvous
        made._timeout, made.group_name = self._timeout, self.group_name
        made.global_ranks_in_group = self.global_ranks_in_group
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Options:
        return self.__copy__()


def read_options(options: Any, timeout: timedelta | None) -> Options:
    """Return the options of a group; NCCL takes a timeout in their place, or by name."""
    if isinstance(options, timedelta):
        options, timeout = None, options
    if options is not None:
        return options  # type: ignore[no-any-return]
    made = Options()
    made._timeout = timeout or TIMEOUT
    return made
