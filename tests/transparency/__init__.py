"""Only the devices of tensors change: everything else that a program sees is as in stock torch.

Each test returns what it saw, under stock torch and while active.
"""
