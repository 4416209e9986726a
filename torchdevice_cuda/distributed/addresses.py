"""Find the address of this host at which other hosts reach it.

Gloo uses the address of the host's name, which is often the loopback address. NCCL uses an external interface.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import ProcessGroupGloo


def options(timeout: timedelta) -> Any:
    """Return options for a Gloo group; ``None`` if Gloo's own choice is fine."""
    where = _where()
    if where is None:
        return None
    made: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # not in the stubs
    made._devices = [ProcessGroupGloo.create_device(**where)]
    made._threads = 2
    made._timeout = timeout
    return made


def _where() -> dict[str, str] | None:
    """Return the interface chosen for NCCL, or the address from which the first rank's host is reached."""
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
            # Nothing is sent: the system only looks up the route.
            asked.connect(address)
            found: str = asked.getsockname()[0]
    except OSError:
        return None
    return None if found.startswith("127.") or found == "::1" else {"hostname": found}
