"""Tensor methods: a file for each kind of method."""
