"""The progress bar of sweeps and experiments."""

from __future__ import annotations

import warnings
from typing import Any


def bar(total: int, done: int, *, shown: bool) -> Any:
    """Return a bar for ``total`` runs, of which ``done`` have ended: a context with the method ``update``."""
    with warnings.catch_warnings():
        # In a notebook without the package ipywidgets, tqdm warns and prints a bar of text.
        warnings.simplefilter("ignore")
        # Importing tqdm takes longer than importing the rest of the package.
        from tqdm.auto import tqdm
    return tqdm(total=total, initial=done, unit="run", disable=not shown)
