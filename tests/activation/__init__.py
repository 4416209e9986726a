"""Activation: before torch, after it, twice, wrongly, and back."""
