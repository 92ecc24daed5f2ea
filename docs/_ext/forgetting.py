"""Between two examples, compiled programs are dropped: those of all would fill the memory."""

import gc
from typing import Any

import jax


def forget_compiled(gallery_conf: dict[str, Any], fname: str) -> None:
    jax.clear_caches()
    gc.collect()
