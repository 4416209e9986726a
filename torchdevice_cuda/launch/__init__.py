"""The command line: running a program as python would, interactive sessions, ``--info``, child processes."""
