"""The experiments of Hennig & Hauberg (2014), one module a figure.

A module has a docstring, whose first line is the title of the figure and whose rest is its caption, and a function
`run(settings)` that returns an `Outcome`.
"""

from probgeo.paper.run import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
