import torch
from torch.utils.data import DataLoader

torch.ones(1, device="cpu")
for _ in DataLoader([[1.0], [2.0]], num_workers=2):
    pass
