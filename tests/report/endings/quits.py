import os

import torch

torch.zeros(1, device="cuda")
os._exit(4)
