import os
import signal
import sys
import time

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(5))

import torch  # noqa: E402

torch.zeros(1, device="cuda")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
