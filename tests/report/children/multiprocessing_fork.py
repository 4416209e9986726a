import multiprocessing

import torch


def work() -> None:
    torch.ones(1, device="cpu")


if __name__ == "__main__":
    torch.ones(1, device="cpu")
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
