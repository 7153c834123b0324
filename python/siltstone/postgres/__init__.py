"""The store in PostgreSQL, for applications on several machines: the same contract, the same ranking.

It needs the extra ``postgres``. docs/design/postgres.md describes the design.
"""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.postgres.schema import setup
    from siltstone.postgres.store import PostgresStore
else:
    __getattr__ = names_of(__name__, {"schema": "setup", "store": "PostgresStore"})

__all__ = ["PostgresStore", "setup"]
