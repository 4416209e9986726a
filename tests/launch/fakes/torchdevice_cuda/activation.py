"""Notes what is asked of it."""

import sys

calls = []


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            calls.append("find torch")
            for other in sys.meta_path:  # as the genuine finder does
                if other is not self and other.find_spec(name, path, target) is not None:
                    return other.find_spec(name, path, target)
        return None


def is_active():
    return "activate" in calls


def start(settings, failing):
    if is_active():
        return
    calls.append("activate")
    sys.meta_path.insert(0, Finder())


def activate(**settings):
    start(settings, None)
