import os
import signal

import torch

torch.zeros(1, device="cuda")
os.kill(os.getpid(), signal.SIGKILL)
