"""Tests of the mps driver and the fallback chain."""
