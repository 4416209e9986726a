import sys

sys.excepthook = lambda *args: sys.exit(9)
raise ValueError
