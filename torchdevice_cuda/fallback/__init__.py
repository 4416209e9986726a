"""MPS -> MLX -> CPU: what happens to an operator that the Apple GPU's backend lacks or refuses.

A *refusal* is the backend's "not here": of an operator, a dtype or a layout. ``refusals`` is the table of the words by
which one is known, ``capabilities`` knows which operators the backend lacks and remembers what it refused.

An operator that leaves the GPU is a *departure*, counted with its reason. ``kernels`` registers one for each operator
that is lacking and says so as the user wants; ``guards`` ask the backend first, and depart where it refuses.
``storages`` gives storages other sizes. Tensors that the backend cannot hold are in ``wrapper_tensors``.

A departure goes to one of two places: ``cpu`` takes the arguments to the CPU and the results back to the device,
``mlx_ops`` computes what came there through MLX (``mlx_arrays``: its arrays). ``mlx_routes`` measures and chooses
between the two, ``thresholds`` holds the figures, ``stored`` keeps figures and refusals for later processes.

Nothing here knows who asked: the program's file and line come from the caller.
"""
