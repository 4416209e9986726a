"""A torch small enough to start hundreds of times: it notes who would have found it."""

import sys

finders = [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]
