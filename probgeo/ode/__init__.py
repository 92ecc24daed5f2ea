"""An ODE and its (uncertain) data in, a posterior over curves out. Knows nothing of geometry."""
