"""``device="cuda"`` means something at every entry point; on the ``cpu`` driver CUDA's results are the CPU's."""
