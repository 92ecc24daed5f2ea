"""What all pictures share: colours for print and for the colour-blind, one style a solver."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe and Ito's colours; markers and dashes tell lines apart without them
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#000000", "#CC79A7", "#56B4E9", "#E69F00", "#777777")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DASHES = ("-", "--", "-.", ":", "--", "-.", ":", "--")
STYLES = [
    {"color": c, "marker": m, "linestyle": d, "linewidth": 1.4, "markersize": 5}
    for c, m, d in zip(COLOURS, MARKERS, DASHES, strict=True)
]

plt.rcParams.update({"font.size": 10, "axes.titlesize": 10, "axes.grid": True, "grid.alpha": 0.3,
                     "grid.linewidth": 0.6, "axes.spines.top": False,
                     "axes.spines.right": False})  # fmt: skip


def save(figure: plt.Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150, metadata={"Software": None})
    plt.close(figure)
