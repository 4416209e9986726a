"""Green contexts, if torch creates them without its own bindings: these raise an error."""

from typing import NoReturn

from torchdevice_cuda.shadow import stock
from torchdevice_cuda.shadow.bindings.green_contexts import green_context_unavailable

stock.execute(globals())


def _ensure_supported() -> NoReturn:
    """Raise: since 2.14 they are created through NVIDIA's library, which torch looks for first."""
    raise green_context_unavailable()


def _is_locality_software_supported() -> bool:
    """Return false: NVIDIA's driver reports memory domains of a device; without a driver, it has one domain."""
    return False
