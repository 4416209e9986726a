import multiprocessing
import os
import signal

import torch


def work() -> None:
    torch.ones(1, device="cpu")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.ones(1, device="cpu")
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
