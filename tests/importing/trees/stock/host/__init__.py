from . import tree as tree

complete = True
