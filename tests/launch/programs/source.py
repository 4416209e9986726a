"""Print the results of pickle, dataclasses and inspect for a class of the program."""

import dataclasses
import inspect
import pickle
import typing


@dataclasses.dataclass
class Point:
    x: "typing.ClassVar[int]" = 3
    y: int = 4


if __name__ == "__main__":
    print(pickle.dumps(Point(5)), pickle.loads(pickle.dumps(Point(6))))
    print(inspect.getsource(Point), typing.get_type_hints(Point), inspect.getmodule(Point))
