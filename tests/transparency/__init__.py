"""Nothing else changes: what a program sees besides where its tensors live is what stock torch shows it.

Each test returns what it saw, under stock torch and while active.
"""
