"""Measure speed and memory beside peers, as ratios within one run (see ``docs/reference.md``)."""
