import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)

import torch  # noqa: E402

torch.zeros(1, device="cuda")
os.kill(os.getpid(), signal.SIGTERM)
