"""The progress bar of sweeps and experiments."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # In a notebook without the package ipywidgets, tqdm warns and prints a bar of text.
    warnings.simplefilter("ignore")
    from tqdm.auto import tqdm

__all__ = ["tqdm"]
