"""Tensors that a GPU's backend cannot create: torchdevice_cuda's classes, which report the GPU as their device.

``doubles``: float64 and complex128 if they are kept. ``quantized``: quantized tensors. ``nested``: nested tensors of
layout ``torch.strided``. ``compressed``: CSR, CSC, BSR and BSC. ``base``: their base class, its operators, and the
``Home`` that computes on the CPU and returns results.
"""
