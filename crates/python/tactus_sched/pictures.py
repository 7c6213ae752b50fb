"""The type of pictures."""

from __future__ import annotations


class Svg(str):
    """An SVG document, which a notebook draws."""

    def _repr_svg_(self) -> str:
        return str(self)
