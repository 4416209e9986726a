"""A process of the soak: works in random order, and stays to the end to take its own measure or ends at random.

    python process.py PLACE ROLE SEED SECONDS PLANT
    python process.py PLACE trainer SEED STEPS PLANT      # trains one model, and measures itself on the way

It prints a line of JSON: what it was about to do when it began to end, or its figures.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from typing import Any

PLACES: dict[str, dict[str, Any]] = {
    "virtual": {"driver": "virtual", "memory": "512MiB", "devices": 2},
    "mps": {"driver": "mps"},
    "cpu": {"driver": "cpu", "memory": "512MiB"},
}
#: How a process ends, and what its parent sees.
ENDINGS = {
    "returns": 0,
    "exits": 3,
    "raises": 1,
    "quits": 4,
    "is terminated": -signal.SIGTERM,
    "is killed": -signal.SIGKILL,
}
#: Seconds that one action may take on a busy machine; past them it hangs, and says where.
LIMIT = 120


def end(ending: str) -> None:
    if ending == "exits":
        sys.exit(3)
    if ending == "raises":
        raise RuntimeError("this is how it ends")
    if ending == "quits":
        os._exit(4)
    if ending == "is terminated":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    if ending == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)


def figures() -> dict[str, float]:
    """Return the resources that this process holds."""
    import actions
    import psutil
    import torch

    actions.settle()
    process = psutil.Process()
    return {
        "resident MiB": round(process.memory_info().rss / (1 << 20), 1),
        "device bytes": torch.cuda.memory_allocated() if torch.cuda.is_available() else 0,
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "Python threads": threading.active_count(),
        "children": len(process.children(recursive=True)),
        "temporary files": len(os.listdir(os.environ["TMPDIR"])),
    }


def cycle(settings: dict[str, Any]) -> None:
    """Out and in again; the report is written on the way."""
    import torchdevice_cuda

    torchdevice_cuda.deactivate()
    torchdevice_cuda.activate(**settings)


def stay(place: str, settings: dict[str, Any], dice: random.Random, seconds: float, plant: str) -> dict[str, Any]:
    """Work until the time is up; the figures after everything has been done a few times, and at the end."""
    import actions

    known = actions.ACTIONS[place]
    started = time.monotonic()
    for _ in range(3):
        for action in known:
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            action(dice)
        cycle(settings)
    # Some of what is warmed up is warmed up late: allocators' arenas, one for each thread that ever met another.
    while time.monotonic() - started < seconds * 0.25:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        dice.choice(known)(dice)
    warm, rounds, cycles = figures(), 0, 0
    while time.monotonic() - started < seconds:
        faulthandler.dump_traceback_later(20 if plant == "hang" else LIMIT, exit=True)
        if plant:
            actions.PLANTS[plant]()
        if dice.random() < 0.05:
            cycle(settings)
            cycles += 1
        else:
            dice.choice(known)(dice)
        rounds += 1
    return {"rounds": rounds, "cycles": cycles, "warm": warm, "end": figures()}


def train(steps: int, plant: str) -> dict[str, Any]:
    """Train one model as programs do; the figures after a tenth of the steps, and at the end."""
    import actions

    rounds = actions.train_on(steps)
    warm = end = {}
    for done in rounds:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        if done == steps // 10:
            warm = figures()
        if plant and done % 100 == 0:
            actions.PLANTS[plant]()
        if done == steps - 1:
            end = figures()  # with the model and its optimizer, as before
    return {"rounds": steps, "cycles": 0, "warm": warm, "end": end}


def main() -> None:
    place, role, seed, seconds, plant = sys.argv[1:6]
    dice = random.Random(int(seed))
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    folder = os.environ["SOAK_REPORTS"]
    settings = {**PLACES[place], "report": os.path.join(folder, f"{role}-{os.getpid()}.txt")}
    if dice.random() < 0.5:
        import torch  # noqa: F401  (activation after it)
    import torchdevice_cuda

    torchdevice_cuda.activate(**settings)
    import actions

    if role == "resident":
        print(json.dumps(stay(place, settings, dice, float(seconds), plant)), flush=True)
        return
    if role == "trainer":
        print(json.dumps(train(int(seconds), plant)), flush=True)
        return
    ending = dice.choice([*ENDINGS])
    for _ in range(dice.randrange(4)):
        dice.choice(actions.ACTIONS[place])(dice)
    # Somebody else is still at work when it ends. Not on the cpu driver: there torch's own autograd thread aborts the
    # process now and then, as it does in stock torch (2 of 24 runs).
    if dice.random() < 0.3 and place != "cpu":
        threading.Thread(
            target=lambda: [actions.train(random.Random(turn)) for turn in range(1000)], daemon=True
        ).start()
    print(json.dumps({"ending": ending}), flush=True)
    end(ending)


if __name__ == "__main__":
    main()
