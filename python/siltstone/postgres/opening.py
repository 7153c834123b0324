"""The checks at the opening of a store in PostgreSQL, and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from siltstone.errors import ConfigError, StoreError, StoreOpenError, requires
from siltstone.postgres.connection import LostError, first_line, run
from siltstone.postgres.schema import (
    HASH_RULES,
    SCHEMA_VERSION,
    TOKENIZER,
    another,
    quoted,
    setup,
    version_of,
)

with requires("postgres", by="siltstone.PostgresStore"):
    import psycopg
    from psycopg_pool import PoolTimeout


Connection: TypeAlias = psycopg.Connection[Any]

__all__ = ["look", "opening"]


@contextmanager
def opening(schema: str) -> Iterator[None]:
    """The error of a failed opening, without any part of the connection string."""
    try:
        yield
    except StoreError:
        raise
    except (psycopg.Error, LostError) as error:
        raise StoreOpenError(
            f"cannot open the store in schema {schema!r}: {first_line(error)}", path=schema
        ) from error
    except PoolTimeout as error:
        raise StoreOpenError(
            f"cannot open the store in schema {schema!r}: the pool gave no connection", path=schema
        ) from error


def look(
    connection: Connection, schema: str, create: bool, hash_rule: str | None
) -> tuple[bool, str, str | None]:
    """Whether the role may write to the tables, which are made where asked for; their rule and language."""
    if create:
        setup(connection, schema, hash_rule or HASH_RULES[0])
    version = version_of(connection, schema)
    if version is None:
        raise StoreOpenError(
            f"schema {schema!r} has no tables of a store: make them with PostgresStore.open(..., setup=True) "
            "or `siltstone postgres setup`",
            path=schema,
        )
    if version != SCHEMA_VERSION:
        raise another(schema, version)
    ((standby, read_only, allowed, rule, tokenizer, language),) = run(
        connection,
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', "
        f"has_table_privilege(%s, 'INSERT'), {_meta(schema, 'hash_rule')}, {_meta(schema, 'tokenizer')}, "
        f"{_meta(schema, 'language')}",
        [f"{quoted(schema)}.entry"],
    )
    if rule not in HASH_RULES or tokenizer != TOKENIZER:
        raise StoreOpenError(
            f"the tables in schema {schema!r} need hash rule {rule!r} and tokenizer {tokenizer!r}, and this "
            "siltstone lacks one of them",
            path=schema,
        )
    if hash_rule not in (None, rule):
        raise ConfigError(
            f"the tables in schema {schema!r} were made with hash_rule {rule!r}, not {hash_rule!r}: open "
            "them without one",
            field="hash_rule",
            value=hash_rule,
        )
    return not (standby or read_only or not allowed), rule, language


def _meta(schema: str, key: str) -> str:
    return f"(SELECT value FROM {quoted(schema)}.meta WHERE key = '{key}')"
