"""The ``cpu`` driver."""
