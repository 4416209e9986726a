"""``torch.cuda.Stream``, ``ExternalStream`` and ``Event``: stock's, over base classes of the driver's."""

from torchdevice_cuda.shadow import stock

stock.execute(globals())
