"""Stand-ins for packages whose kernels are compiled for CUDA, over torch's own operators.

`packages` has a package of the same name for each row of :mod:`torchdevice_cuda.settings.stand_ins`. `finding` serves
them where the real package is absent or does not load; nothing here is imported unless the setting names one.
"""
