"""The base of the patches: the registry and the undo log, the shared context, requests, policy, marks."""
