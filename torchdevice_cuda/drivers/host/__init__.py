"""Code shared by drivers whose GPU is the host's processor."""
