"""Statistics on learned Riemannian manifolds with honest error bars."""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"
