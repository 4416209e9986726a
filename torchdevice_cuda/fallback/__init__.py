"""MPS -> MLX -> CPU: operators that the Apple GPU's backend lacks or refuses.

A *refusal* is the backend's error for an unsupported operator, dtype or layout. ``refusals`` is the table of the
messages that identify one, ``capabilities`` lists the operators that the backend lacks and caches its refusals.

An operator that leaves the GPU is a fallback (a *departure* in the code), counted with its reason. ``kernels``
registers one for each missing operator and reports it as the user chose; ``guards`` call the backend first, and fall
back if it refuses. ``storages`` resizes storages. Tensors that the backend cannot hold are in ``wrapper_tensors``.

A fallback has one of two backends: ``cpu`` moves the arguments to the CPU and the results back to the device,
``mlx_ops`` computes them with MLX there (``mlx_arrays``: its arrays). ``mlx_routes`` measures and chooses between the
two, ``thresholds`` has the figures, ``stored`` keeps figures and refusals for later processes.

Nothing here inspects the caller: the program's file and line are passed in.
"""
