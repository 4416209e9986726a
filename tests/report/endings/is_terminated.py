import os
import signal
import time

import torch

torch.zeros(1, device="cuda")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
