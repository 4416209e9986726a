"""Print a program's surroundings: its arguments, paths and modules."""

import sys

main = sys.modules["__main__"]
shown = {name: value for name, value in vars(main).items() if name not in ("main", "sys", "shown")}
for name, value in shown.items():
    print(name, type(value) if name == "__builtins__" else value)
print(sys.argv)
print(sys.path)
print(main.__dict__ is globals(), __name__)
