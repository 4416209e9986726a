"""A host that has no room for a device."""

import torchdevice_cuda
from torchdevice_cuda.drivers.virtual.driver import VirtualDriver


def refuse(self: VirtualDriver) -> None:
    raise RuntimeError("no room")


VirtualDriver.prepare = refuse  # type: ignore[method-assign]
torchdevice_cuda.activate()
import torch  # noqa: E402

layer = torch.nn.Linear(2, 2).cuda()
layer(torch.ones(1, 2, device="cuda")).sum().backward()
total = torch.full((3,), 4.0, device="cuda").sum().item()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    torch.cuda.Event().record()
print(torchdevice_cuda.driver().name, torch.cuda.is_available(), total, torch.cuda.memory_allocated() >= 0)
