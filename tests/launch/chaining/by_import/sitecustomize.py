"""Another tool's: runs the one it hides by importing it."""

import os
import sys

print("theirs")
here = os.path.dirname(__file__)
sys.path.remove(here)
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401

sys.path.append(here)
