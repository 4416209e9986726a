"""``python -m torchdevice_cuda``; see :mod:`torchdevice_cuda.cli`."""

import sys

from . import program

if __name__ == "__main__":
    program.drop_first_entry()
    from .cli import main

    sys.exit(main())
