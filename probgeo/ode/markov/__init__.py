"""Posteriors in time linear in the number of nodes."""

from probgeo.ode.markov.solver import Markov

__all__ = ["Markov"]
