"""What a child of the catalog does: calls a chunk of callables on a device."""

import sys

from measuring import work

if __name__ == "__main__":
    work(*sys.argv[1:4])
