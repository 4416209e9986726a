"""What the patches stand on: the registry and the undo log, the context they share, requests, policy, marks."""
