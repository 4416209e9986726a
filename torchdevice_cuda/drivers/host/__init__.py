"""Code that drivers share whose GPU is the host's processor."""
