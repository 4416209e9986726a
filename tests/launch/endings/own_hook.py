import sys
import traceback


def hook(kind, value, tb):
    print("hook", kind, value, traceback.format_tb(tb), value.__traceback__ is tb, sys.last_traceback is tb)


sys.excepthook = hook
raise ValueError("seen")
