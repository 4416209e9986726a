import threading
import time


def work():
    time.sleep(0.1)
    print("after the main thread", __name__)
    raise ValueError("in a thread")


threading.Thread(target=work, name="worker").start()
