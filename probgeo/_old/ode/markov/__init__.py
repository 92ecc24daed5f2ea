"""Posteriors with Markov priors, in linear time."""

from probgeo._old.ode.markov.prior import MaternPrior, Prior, WienerPrior
from probgeo._old.ode.markov.solver import Markov

__all__ = ["Markov", "MaternPrior", "Prior", "WienerPrior"]
