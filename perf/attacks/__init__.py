"""Attacks of perf/attack.py: one file per idea, each with `run(scene)`."""
