"""Random programs on a device, compared step by step with a reference; compiled programs, compared with eager ones.

    python tools/fuzz operators --seconds 60 --seed 1   # operators and views, on the virtual GPU, against the CPU
    python tools/fuzz programs --driver mps --seconds 60           # with gradients, on the emulated Apple GPU
    python tools/fuzz operators --driver stock --device cpu --against cuda --record FILE     # on a machine with a GPU
    python tools/fuzz operators --compare FILE                     # what the GPU gave, against the virtual GPU

What a seed gives is printed with each finding, shortened; ``--only N`` runs the Nth program of a seed again. The exit
status is 1 if anything differs that explained.py does not explain, or the process that computes died or hung.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from watching import watch  # noqa: E402

#: MPS has no float64, and no complex128.
_NARROW = "float32,float16,bfloat16,complex64,int64,int32,int16,int8,uint8,bool"
_ALL = f"float64,complex128,{_NARROW}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["operators", "programs", "compiled"])
    parser.add_argument("--seconds", type=float, default=None, help="60, unless a number of programs is named")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", type=int, default=None, help="the number of one program")
    parser.add_argument("--programs", type=int, default=None, help="how many")
    parser.add_argument("--driver", choices=["virtual", "mps", "cpu", "stock"], default="virtual")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--against", default="cpu", help="the reference")
    parser.add_argument("--dtypes", default=None, help="comma-separated")
    parser.add_argument("--steps", type=int, default=10, help="of a program, on average")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--record", type=Path, default=None, help="write what the reference gave into this file")
    parser.add_argument("--compare", type=Path, default=None, help="take this file as the reference")
    parser.add_argument("--findings", type=Path, default=None, help="write whole programs into this folder")
    parser.add_argument("--plant", default="", help="a fault that has to be found")
    options = parser.parse_args()
    if options.dtypes is None:
        options.dtypes = _NARROW if options.driver == "mps" else _ALL
    return watch(options)


if __name__ == "__main__":
    sys.exit(main())
