import os
import signal
import time

import torch

torch.zeros(1, device="cuda")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
