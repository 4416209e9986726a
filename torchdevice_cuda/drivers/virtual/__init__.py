"""The ``virtual`` driver: a GPU in host memory."""
