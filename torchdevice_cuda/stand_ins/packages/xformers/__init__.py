"""Stand-in for xformers: its attention and masks over ``torch.nn.functional.scaled_dot_product_attention``."""

from torchdevice_cuda.settings.stand_ins import STAND_INS

__version__ = STAND_INS["xformers"].version
_has_cpp_library = True
