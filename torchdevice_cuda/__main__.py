"""``python -m torchdevice_cuda``; see :mod:`torchdevice_cuda.launch.cli`."""

import sys

from .launch import program

if __name__ == "__main__":
    program.drop_first_entry()
    from .launch.cli import main

    sys.exit(main())
