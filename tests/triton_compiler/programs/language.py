"""Run the kernels of the language, and print a JSON object: what each computed, and which were interpreted.

Arguments name cases; without any, all run.
"""

import json
import math
import sys
import traceback

import language_elements  # noqa: F401 - its cases are in the table
import language_memory  # noqa: F401
import language_others
import language_tiles
from cases import CASES

from torchdevice_cuda.activation import current_settings
from torchdevice_cuda.report.departures import departures

HOW = current_settings().triton


def shown(tensor):
    values = tensor.detach().cpu().reshape(-1).tolist()
    return [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in values]


def run(function):
    try:
        return [shown(tensor) for tensor in function()]
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"


def find_difference(function):
    ours, theirs = function()
    return ((ours - theirs).abs() / (1 + theirs.abs())).max().item()


chosen = sys.argv[1:] or list(CASES)
found = {name: run(CASES[name]) for name in chosen}
# Triton's interpreter has none of these.
others = [language_tiles.scaled_products, language_tiles.maps, *language_others.OTHERS]
others = others if HOW == "compiled" and not sys.argv[1:] else []
more = {other.__name__: find_difference(other) for other in others}
print(json.dumps({"found": found, **more, "interpreted": [row[1:] for row in departures.rows()]}))
