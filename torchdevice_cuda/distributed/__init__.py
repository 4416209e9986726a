"""Collective operations of ``torch.distributed`` on the accelerator's tensors: NCCL's rules, carried out by Gloo.

``rules`` is what NCCL takes and refuses, ``options`` and ``environment`` what a program configures it with,
``agreement`` how ranks see what the others do, ``carriers`` how tensors get to the host and back on each kind of
device, ``backend`` the class that stands for ``ProcessGroupNCCL``, ``groups`` who is whose, and ``kernels`` how the
dispatcher finds them.
"""
