"""Collective operations of ``torch.distributed`` on the accelerator's tensors: NCCL's rules, carried out by Gloo.

``rules``: what NCCL accepts and refuses. ``options`` and ``environment``: NCCL's configuration. ``agreement``: how
ranks see each other's calls. ``carriers``: how tensors get to the host and back on each kind of device. ``backend``:
the class that replaces ``ProcessGroupNCCL``. ``groups``: the backend of each group. ``kernels``: how the dispatcher
finds them.
"""
