"""``--doctor``: checks assumptions of torchdevice_cuda about a machine, for machines that it was not tested on.

``table`` lists the checks. Each is a program in ``checks``, run in its own process like a user's program: ``running``
starts them, ends those that hang, and restarts a check after a question that ended it. ``asking`` is the program's
side: the questions, their time limits and the file of answers. ``results`` has the results, ``document`` writes them,
``examination`` runs everything, and prints it.

``checks.installation`` is about the machine, not the device: installed packages and settings, each with advice;
``packages`` reads their metadata. Checks of the Apple GPU itself run on torch without patches (``bare``): ``probes``
has a call for every row of the table of refusals, ``samples`` has arguments for the operators of MLX's table.
"""
