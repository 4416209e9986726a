"""MPS -> MLX -> CPU: what happens to an operator that the Apple GPU's backend lacks.

``capabilities`` knows which operators those are, ``kernels`` registers one for each of them, ``mlx_ops`` and ``cpu``
are the two places where they can be computed. ``mlx_routes`` measures and chooses between the two, ``thresholds`` holds
the figures. ``guards`` are for operators that the backend has, but not for every dtype, ``compressed`` for a
layout that it does not have. ``stored`` is what outlives the process.
"""
