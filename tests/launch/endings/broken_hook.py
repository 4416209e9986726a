import sys


def hook(*args):
    raise TypeError("the hook")


sys.excepthook = hook
raise ValueError("the program")
