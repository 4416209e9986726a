import os
import signal
import threading
import time

import torch


def work() -> None:
    while True:
        torch.zeros(1, device="cuda")


for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
