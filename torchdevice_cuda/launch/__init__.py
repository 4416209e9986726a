"""``python -m torchdevice_cuda``: the command line, and the program run as python itself would run it."""
