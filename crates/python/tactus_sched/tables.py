"""The type of tables."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ArrowTable(Protocol):
    """A table that Arrow libraries read without copying: ``polars.DataFrame(table)``, ``pyarrow.table(table)``.

    Pandas reads it through pyarrow: ``pyarrow.table(table).to_pandas()``.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a capsule of the Arrow C stream interface."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    @property
    def num_columns(self) -> int:
        """Number of columns."""

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
