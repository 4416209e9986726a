"""The stand-ins, each under the name of its package. They are imported by that name alone; see `stand_ins.finding`."""
