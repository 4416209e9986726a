import atexit
import sys


def later():
    import __main__

    print("later", __main__.value, sys.modules["__main__"].__dict__ is globals())


atexit.register(later)
value = 3
raise ValueError
