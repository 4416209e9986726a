"""``torch.distributed`` between processes: collectives, and what is built on them."""
