"""Found by python at its start when this folder is on ``PYTHONPATH``: switches the shim on without installing it."""

import torchdevice_cuda_shim

torchdevice_cuda_shim.install()
torchdevice_cuda_shim.run_hidden_sitecustomize(__file__)
