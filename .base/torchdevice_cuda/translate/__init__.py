"""What makes requests outside ``torch.cuda`` meet the driver: patches of torch, each listed, applied and undone."""
