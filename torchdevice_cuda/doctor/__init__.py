"""``--doctor``: whether what torchdevice_cuda believes of a machine is so, for somebody who has one that we have not.

``table`` lists the checks. Each is a program in ``checks``, run in a process of its own as a user's program is:
``running`` starts them, ends those that hang, and starts again behind a question that ended one. ``asking`` is the
program's side: the questions, their time limits and where the answers go. ``results`` is what came of it,
``document`` writes it down, ``examination`` is the whole, and prints it.

``checks.installation`` is about the machine, not the device: what is installed and set, each with advice; ``packages``
reads it from metadata. Checks of the Apple GPU itself run on torch without our patches (``bare``): ``probes`` has a
call for every row of the table of refusals, ``samples`` arguments for the operators of MLX's table.
"""
