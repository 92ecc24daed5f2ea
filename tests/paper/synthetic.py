"""Records as `reproduce` writes them, without running anything."""

import matplotlib.pyplot as plt
from PIL import Image

EVIL = "<script>alert('x')</script> & a|b *bold*"


def records():
    """Three experiments done, one of them failed, the others not run."""
    return {
        "fig3": _record(
            "fig3",
            ["fig3.png"],
            numbers={
                "paper's": _principal(0.12, [0.02, 0.01]),
                "default": _principal(0.001, [1e-4, 1e-4]),
                "scipy": {"mean": [1.0, 2.0]},
                "rows": [{"D": 2, "seconds": 0.5}, {"D": 5, "seconds": None}],
            },
            claims=[_claim("Means agree.", "agrees"), _claim("Directions agree.", "disagrees")],
        ),
        "fig1": _record(
            "fig1",
            ["fig1.png", "fig1_animated.gif"],
            numbers={
                "largest_error": {"paper": [0.3, 0.1], "default": [1e-3, 3e-7]},
                "largest_std": {"paper": [0.5, 0.1], "default": [1e-3, 1e-7]},
                "long": list(range(100)),
                "not_a_number": float("nan"),
            },
            settings={"data": EVIL, "points": 150},
            claims=[_claim(EVIL, "partly", EVIL, EVIL), _claim("Nobody knows.", "not tested")],
        ),
        "fig2": {**_record("fig2", []), "error": "ValueError: no such <thing>", "traceback": "Traceback: <module>"},
    }


def without_errors():
    return {name: record for name, record in records().items() if "error" not in record}


def draw(folder, found):
    """All pictures that records name, as small as possible."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (f for record in found.values() for f in record["files"]):
        if file.endswith(".gif"):
            frames = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
            frames[0].save(folder / file, save_all=True, append_images=frames[1:])
        else:
            figure = plt.figure(figsize=(0.4, 0.3))
            figure.savefig(folder / file)
            plt.close(figure)


def _record(name, files, numbers=None, settings=None, claims=()):
    return {
        "quick": True,
        "seed": 0,
        "tiny": False,
        "version": "0.1.0",
        "title": f"Fig. {name[3:]}: something",
        "files": files,
        "settings": settings or {},
        "numbers": numbers or {},
        "claims": list(claims),
        "seconds": 100.0,
        "machine": "x86_64, Python 3.11.7",
        "versions": {"probgeo": "0.1.0", "jax": "0.9.2"},
    }


def _claim(paper, verdict, measured="measured", why=""):
    return {"paper": paper, "measured": measured, "verdict": verdict, "why": why}


def _principal(apart, mean_std):
    return {
        "distance_of_means": apart,
        "spread": 3.0,
        "angle_degrees": 1.5,
        "mean": [1.01, 2.02],
        "mean_std": mean_std,
        "mean_std_in_metric": sum(std**2 for std in mean_std) ** 0.5,
    }
