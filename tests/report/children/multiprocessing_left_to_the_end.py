import multiprocessing
import multiprocessing.util  # before torchdevice_cuda can: what Python does at exit is in the other order
import time

import torch


def work() -> None:
    time.sleep(0.5)
    torch.ones(1, device="cpu")


if __name__ == "__main__":
    torch.ones(1, device="cpu")
    multiprocessing.get_context("fork").Process(target=work).start()
