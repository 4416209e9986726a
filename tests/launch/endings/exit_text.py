import sys

sys.exit("a reason")
