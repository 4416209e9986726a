import os
import signal
import time

import torch

torch.zeros(1, device="cuda")
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
