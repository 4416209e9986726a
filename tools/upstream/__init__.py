"""PyTorch's own tests under a driver, what is expected of them, and what becomes of them on a GPU."""
