from functools import lru_cache

from .leaf import Thing as Thing
from .leaf import answer as answer


def whoami():
    return "stock"


def only_stock():
    return "stock"


@lru_cache
def cached():
    return "stock"


def closure(n):
    def inner():
        return ("stock", n)

    return inner


made = closure(1)


def wrapped(x=1):
    return ("stock", x)
