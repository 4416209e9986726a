"""``torch.cuda.Stream``, ``ExternalStream`` and ``Event``: stock's classes, over the driver's base classes."""

from torchdevice_cuda.shadow import stock

stock.execute(globals())
