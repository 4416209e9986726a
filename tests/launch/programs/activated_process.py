"""Start a process by the method that the argument names; print its torch and its activation."""

import multiprocessing
import sys


def look(queue):
    import torch

    import torchdevice_cuda.activation

    queue.put((torch.finders[0], torchdevice_cuda.activation.calls))


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=look, args=(queue,))
    process.start()
    print(*queue.get(timeout=60))
    process.join()
