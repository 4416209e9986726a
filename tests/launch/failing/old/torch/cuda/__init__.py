"""torch.cuda of an old torch."""


def is_available() -> bool:
    return False
