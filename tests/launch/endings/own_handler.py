import os
import signal
import sys

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
os.kill(os.getpid(), signal.SIGTERM)
