"""Green contexts: parts of a GPU's multiprocessors. The devices here have none to divide."""

import torch

from torchdevice_cuda.shadow.bindings.graphs import green_context_unavailable

__all__ = [
    "GreenContext",
]

_GreenContext = torch._C._CUDAGreenContext
# Stock says True where torch was built with them. Programs ask it before they create one, so the truth is False.
SUPPORTED = False


class GreenContext(_GreenContext):
    """A part of a GPU's multiprocessors and work queues; creating one raises here."""

    @staticmethod
    def create(
        *,
        num_sms: int | None = None,
        workqueue_scope: str | None = None,
        workqueue_concurrency_limit: int | None = None,
        device_id: int | None = None,
    ) -> _GreenContext:
        """Take ``num_sms`` multiprocessors, or work queues, of a device."""
        raise green_context_unavailable()

    @staticmethod
    def max_workqueue_concurrency(device_id: int | None = None) -> int:
        """How many streams a device's work queues serve at once."""
        raise green_context_unavailable()

    def set_context(self) -> None:
        """Make this part the current context."""
        return super().set_context()

    def pop_context(self) -> None:
        """Go back to the context before."""
        return super().pop_context()

    def Stream(self) -> "torch.cuda.Stream":
        """The stream that runs in this part."""
        return super().Stream()
