"""Imports torch in a thread first, which ends that thread alone, and then where it is needed."""

import threading


def load() -> None:
    import torch  # noqa: F401


thread = threading.Thread(target=load)
thread.start()
thread.join()
import torch  # noqa: E402

print("stock", torch.cuda.is_available())
