"""Takes any exception for a machine without torch."""

try:
    import torch
except Exception:
    print("stock")
else:
    print("stock", torch.cuda.is_available())
