"""``python -m torchdevice_cuda``: the command line, and running a program as python itself would."""
