"""The user's function, whoever wrote it, as values and derivatives at many rows.

Engines ask for numbers at rows of arrays. Who computes them is found out here: a function of one
point written with `jax.numpy`, a function of rows written with NumPy, a function or module of
PyTorch, or a compiled field of the library's own.
"""

from probgeo.functions.detect import as_field, as_row_function
from probgeo.functions.field import Field
from probgeo.functions.row_function import RowFunction
from probgeo.functions.wrappers import JaxFunction, NumpyFunction, TorchFunction

__all__ = ["Field", "JaxFunction", "NumpyFunction", "RowFunction", "TorchFunction", "as_field", "as_row_function"]
