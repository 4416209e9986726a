"""Run a child of the catalog: call a chunk of callables on a device."""

import sys

from measuring import work

if __name__ == "__main__":
    work(*sys.argv[1:4])
