"""Posteriors with Markov priors, in linear time."""

from probgeo.ode.markov.prior import MaternPrior, Prior, WienerPrior
from probgeo.ode.markov.solver import Markov

__all__ = ["Markov", "MaternPrior", "Prior", "WienerPrior"]
