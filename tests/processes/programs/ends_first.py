"""Sends a tensor, to "nobody" or to an "other" process that takes it and lets it go, drops it and ends."""

import sys
from typing import Any

import torch
import torch.multiprocessing as mp


def take(queue: Any, taken: Any) -> None:
    """The other process."""
    x = queue.get()
    print("received", x.sum().item(), flush=True)
    del x
    taken.set()


if __name__ == "__main__":
    x = torch.ones(3, device="cuda")
    if sys.argv[1] == "nobody":
        x.untyped_storage()._share_cuda_()
    else:
        spawn = mp.get_context("spawn")
        queue, taken = spawn.SimpleQueue(), spawn.Event()
        process = spawn.Process(target=take, args=(queue, taken))
        process.start()
        queue.put(x)
        taken.wait()
        process.join()
    del x
