"""What is said of the processor's name where it is a virtual GPU; known to monitors, which load no device."""

LABEL = "virtual GPU, CUDA compatible"
