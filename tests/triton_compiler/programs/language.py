"""Run the kernels of the language, and print a JSON object: what each computed, and which were interpreted.

Arguments name cases; without any, all run.
"""

import json
import math
import sys
import traceback

import language_elements  # noqa: F401 - its cases are in the table
import language_memory  # noqa: F401
import language_tiles  # noqa: F401
from cases import CASES

from torchdevice_cuda.report.departures import departures


def shown(tensor):
    values = tensor.detach().cpu().reshape(-1).tolist()
    return [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in values]


def run(function):
    try:
        return [shown(tensor) for tensor in function()]
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"


chosen = sys.argv[1:] or list(CASES)
found = {name: run(CASES[name]) for name in chosen}
print(json.dumps({"found": found, "interpreted": [row[1:] for row in departures.rows()]}))
