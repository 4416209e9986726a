import os
import signal
import sys
import time

import torch

torch.zeros(1, device="cuda")
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(5))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
