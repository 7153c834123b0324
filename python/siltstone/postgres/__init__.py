"""The store in PostgreSQL, for applications on several machines: the same contract, the same ranking.

It needs the extra ``postgres``. docs/design/postgres.md describes the design.
"""

from siltstone.postgres.schema import setup
from siltstone.postgres.store import PostgresStore

__all__ = ["PostgresStore", "setup"]
