"""Says that it is there, and sleeps."""

import time

print("ready", flush=True)
time.sleep(60)
