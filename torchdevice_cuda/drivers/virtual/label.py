"""The suffix of the processor's name on a virtual GPU; for monitors, which load no device."""

LABEL = "virtual GPU, CUDA compatible"
