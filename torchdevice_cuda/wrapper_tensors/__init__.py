"""Tensors that a GPU's backend cannot make: classes of our own that say they are on the GPU.

``doubles`` is for float64 and complex128 where they are kept, ``quantized`` for quantized tensors, ``nested`` for
nested tensors of layout ``torch.strided``, ``compressed`` for CSR, CSC, BSR and BSC. ``base`` is what they have in
common: the class, its operators, and the ``Home`` that computes on the CPU and brings results back.
"""
