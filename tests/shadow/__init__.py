"""The served torch.cuda: what its modules answered on a real CUDA device, and what they refuse here."""
