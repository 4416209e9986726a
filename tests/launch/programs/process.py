"""Start a process by the method that the argument names; print whether the shim is in it."""

import multiprocessing
import sys


def look(queue):
    queue.put("torchdevice_cuda_shim" in sys.modules)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=look, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join()
