"""Experiments: what is run, how often, with which settings, and what came of it."""
