import os
import signal
import threading
import time

import torch


def terminate() -> None:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGTERM)


threading.Thread(target=terminate, daemon=True).start()
while True:
    torch.zeros(1, device="cuda")
