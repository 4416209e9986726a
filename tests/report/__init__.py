"""The report: what is counted, where it is written, and when."""
