"""Cases that run together in one child process: importing torch for each would take most of the time."""
