"""Work in a pool of processes that are started in the way its argument says."""

import multiprocessing
import sys


class Work:
    def __call__(self, number):
        return number * 2, __name__, sys.argv


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print(pool.map(Work(), [1, 2]))
