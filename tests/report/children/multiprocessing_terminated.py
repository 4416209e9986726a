import multiprocessing
import signal
import time
from multiprocessing.synchronize import Event

import torch


def work(ready: Event) -> None:
    torch.ones(1, device="cpu")
    ready.set()
    time.sleep(60)


if __name__ == "__main__":
    torch.ones(1, device="cpu")
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=work, args=(ready,))
    process.start()
    ready.wait()
    process.terminate()
    process.join()
    assert process.exitcode == -signal.SIGTERM
