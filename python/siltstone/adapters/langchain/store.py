"""LangGraph's store over a store of siltstone: items by namespace and key, with a search by words."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from siltstone.adapters.base import requires
from siltstone.index import Bm25Index
from siltstone.memory.forgetting_facts import FactRow
from siltstone.memory.paging import sessions_of
from siltstone.stores import MemoryStore, SimpleMemoryStore

with requires("langchain"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        SearchItem,
        SearchOp,
        get_text_at_path,
        tokenize_path,
    )


__all__ = ["SiltstoneStore"]

Namespace = tuple[str, ...]

PREFIX: Final = "langgraph:"  #: the prefix of the ids of namespace sessions; the namespace as JSON follows
CURRENT: Final = "item"  #: the state of a kept item; the digest of its key follows, except in older rows
DELETED: Final = "deleted item"  #: that of a deleted one, with the digest as well

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": lambda one, other: one == other,
    "$ne": lambda one, other: one != other,
    "$gt": lambda one, other: float(one) > float(other),
    "$gte": lambda one, other: float(one) >= float(other),
    "$lt": lambda one, other: float(one) < float(other),
    "$lte": lambda one, other: float(one) <= float(other),
}


class SiltstoneStore(BaseStore):
    """A ``BaseStore`` for ``create_agent(store=...)``, LangMem and nodes of a graph. It needs no API key.

    Values are JSON objects. Namespaces are compared label by label, so a tenant never sees a namespace that
    only begins with the same letters. A search with a query gives the items that share words with it, best
    first, with a score in 0..1. The ``index`` of a put names the fields that are searched; False leaves the
    item out. Items do not expire: LangGraph itself refuses a ``ttl``.

    Several processes may use one store. In a batch, reads come before writes, as in LangGraph's own stores.

    Args:
        store: The store of the items, which you close yourself. It may also hold conversations.
    """

    def __init__(self, store: MemoryStore | SimpleMemoryStore) -> None:
        self._store = store

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Runs *ops*. Returns the result of each read, and None for each write.

        Raises:
            InvalidEntryError: a namespace has more than 1,013 bytes of JSON.
            StoreError: the store could not read or write. Either all writes of a namespace are made, or none.
        """
        asked = list(ops)
        results = [None if isinstance(op, PutOp) else self._read(op) for op in asked]
        writes: dict[Namespace, dict[str, PutOp]] = {}
        for op in asked:
            if isinstance(op, PutOp):
                writes.setdefault(op.namespace, {})[op.key] = op  # the last write counts
        for namespace, puts in writes.items():
            self._write(namespace, puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """:meth:`batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Any:
        if isinstance(op, GetOp):
            rows = self._current(_session(op.namespace), op.key)
            return _item(op.namespace, rows[-1])[0] if rows else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list(op)
        raise InvalidNamespaceError(f"an operation of type {type(op).__name__} is unknown")

    def _write(self, namespace: Namespace, puts: Mapping[str, PutOp]) -> None:
        session = _session(namespace)
        rows: list[tuple[int | None, str, str, str]] = []
        for key, op in puts.items():
            current, deleted = _state(CURRENT, key), _state(DELETED, key)
            ids: list[int | None] = [row[0] for row in self._current(session, key)]
            if not ids and op.value is not None:
                ids = [row[0] for row in self._store.facts(session, deleted) if row[3] == key]
            *others, own = ids or [None]
            rows += [(each, key, deleted, "{}") for each in others]  # two processes wrote it at once
            if op.value is not None:
                rows.append((own, key, current, json.dumps({"value": op.value, "index": op.index})))
            elif own is not None:
                rows.append((own, key, deleted, "{}"))
        if rows:
            self._store.put_facts(session, rows)

    def _current(self, session: str, key: str) -> list[FactRow]:
        """The rows of the item *key*, oldest first. The last one counts.

        The store finds rows by their state, so no row of another key is read. Older rows have no key there.
        """
        states = _state(CURRENT, key), CURRENT
        return sorted(row for state in states for row in self._store.facts(session, state) if row[3] == key)

    def _items(self, namespace: Namespace) -> list[tuple[Item, Any]]:
        """The items of *namespace*, each with the fields that are searched."""
        rows = self._store.facts(_session(namespace))
        found = {row[3]: _item(namespace, row) for row in rows if _is_current(row)}
        return list(found.values())

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = [
            (item, index)
            for namespace in self._namespaces()
            if namespace[: len(op.namespace_prefix)] == tuple(op.namespace_prefix)
            for item, index in self._items(namespace)
            if _matches(item.value, op.filter or {})
        ]
        chosen: list[tuple[Item, float | None]]
        if not op.query:
            chosen = [(item, None) for item, _ in found]
        else:
            texts = Bm25Index()
            texts.add([_text(item.value, index) for item, index in found])
            ids, scores = texts.search(op.query, min(op.offset + op.limit, len(found)) or 1)
            chosen = [(found[int(i)][0], float(score)) for i, score in zip(ids, scores, strict=True)]
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in chosen[op.offset : op.offset + op.limit]
        ]

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            for namespace in self._namespaces()
            if all(_is_named(namespace, each) for each in conditions)
            and any(map(_is_current, self._store.facts(_session(namespace))))
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    def _namespaces(self) -> Iterator[Namespace]:
        """The namespaces that ever held an item."""
        for each in sessions_of(self._store):
            if each.session_id.startswith(PREFIX):
                yield tuple(json.loads(each.session_id.removeprefix(PREFIX)))


def _session(namespace: Namespace) -> str:
    return PREFIX + json.dumps(list(namespace), ensure_ascii=False, separators=(",", ":"))


def _state(state: str, key: str) -> str:
    """*state* of the item *key*. A digest, because a store may limit the length of what it finds rows by."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{state} {digest}"


def _is_current(row: FactRow) -> bool:
    return row[2].partition(" ")[0] == CURRENT


def _item(namespace: Namespace, row: FactRow) -> tuple[Item, Any]:
    """The item of a row, and its fields that are searched."""
    _, _, _, key, body, created_at, changed_at = row
    kept = json.loads(body)
    item = Item(
        value=kept["value"],
        key=key,
        namespace=namespace,
        created_at=_time(created_at),
        updated_at=_time(changed_at),
    )
    return item, kept["index"]


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def _text(value: Any, index: Any) -> str:
    """The searched text of *value*: all of its texts, the texts of some fields, or none."""
    if index is False:
        return ""
    if not isinstance(index, list):
        return "\n".join(_texts(value))
    return "\n".join(text for path in index for text in get_text_at_path(value, tokenize_path(path)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _matches(value: Any, wanted: Any) -> bool:
    """Whether *value* matches *wanted*: equal values, or LangGraph's operators."""
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compares(value, str(name), other) for name, other in wanted.items())
        return isinstance(value, Mapping) and all(
            _matches(value.get(key), each) for key, each in wanted.items()
        )
    return bool(value == (list(wanted) if isinstance(wanted, tuple) else wanted))


def _compares(value: Any, name: str, other: Any) -> bool:
    compare = _COMPARED.get(name)
    if compare is None:
        raise ValueError(f"unsupported operator {name!r}; known are {', '.join(_COMPARED)}")
    try:
        return bool(compare(value, other))
    except (TypeError, ValueError):  # an item without the field, or with a text in it
        return False


def _is_named(namespace: Namespace, condition: MatchCondition) -> bool:
    path: Sequence[str] = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
