import os
import sys

import torch

torch.ones(1, device="cpu")
if not os.fork():
    torch.ones(1, device="cpu")
    sys.exit()
os.wait()
