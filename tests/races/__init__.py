"""Races between streams: the detector, and the programs that it judges."""
