"""The checks: programs that put questions to the device, and are told apart from torch and from us as programs are."""
