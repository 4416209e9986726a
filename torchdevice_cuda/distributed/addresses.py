"""Find the address of a host by which other hosts reach it.

Gloo takes the one of the host's name, which is often the loopback's. NCCL takes an interface that leads out.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import ProcessGroupGloo


def options(timeout: timedelta) -> Any:
    """Options for a group of Gloo's; ``None`` where its own choice will do."""
    where = _where()
    if where is None:
        return None
    made: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # not in the stubs
    made._devices = [ProcessGroupGloo.create_device(**where)]
    made._threads = 2
    made._timeout = timeout
    return made


def _where() -> dict[str, str] | None:
    """Return the interface that NCCL was told to take, or the address by which the first rank's host is reached."""
    if os.environ.get("GLOO_SOCKET_IFNAME"):
        return None
    named = os.environ.get("NCCL_SOCKET_IFNAME", "").removeprefix("=")
    if named and not named.startswith("^"):
        known = [name for _, name in socket.if_nameindex() if name.startswith(named.split(",")[0])]
        return {"interface": known[0]} if known else None
    master = os.environ.get("MASTER_ADDR", "")
    if not master:
        return None
    try:
        family, _, _, _, address = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            # Nothing is sent: the system looks up which way it would go.
            asked.connect(address)
            found: str = asked.getsockname()[0]
    except OSError:
        return None
    return None if found.startswith("127.") or found == "::1" else {"hostname": found}
