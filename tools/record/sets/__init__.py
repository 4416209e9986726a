"""Sets that only the engine runs; those that tests run, too, are in tests/recorded."""
