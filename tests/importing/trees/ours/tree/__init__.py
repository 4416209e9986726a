from functools import lru_cache

from .leaf import Thing as Thing
from .leaf import answer as answer


def whoami():
    return "shadow"


@lru_cache
def cached():
    return "shadow"


def closure(n, m=2):
    def inner():
        return ("shadow", n, m)

    return inner


made = closure(1)


def wrapped(y=2, *, z=3):
    return ("shadow", y, z)


def only_shadow():
    return "shadow"
