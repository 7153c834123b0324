"""The core tells which rows may hold a text: never too few, and seldom many more than hold it."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given, strategies as st

from hostile_texts import hostile
from shapes import call, result
from siltstone import Entry, MemoryStore, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.memory.forgetting import Criteria, Holding, Sought
from siltstone.memory.log import LogRow
from strategies import texts

pieces = texts().filter(bool)


def nested(text: str, levels: list[bool]) -> str:
    """*text* inside a level of JSON for each of *levels*, with ASCII escapes where it is true."""
    for is_ascii in levels:
        text = json.dumps({"said": f"before {text} behind"}, ensure_ascii=is_ascii)
    return text


def criteria(text: str) -> Criteria:
    return Criteria.of({"text": text})


def opened(store: SimpleMemoryStore | MemoryStore) -> Session:
    return Session.open(None, "a", memory=store, policy=ThresholdCompactor(), model=None)


def rows(store: SimpleMemoryStore | MemoryStore) -> list[LogRow]:
    log = store.open_log("a")
    return log.read(0, log.state().next_seq)


@given(pieces, st.lists(st.booleans(), max_size=3), pieces)
@example("silt", [True, True], "\\u0073ilt")
@example("é", [True], "\\u00e9")
@example("...", [], "a")
@example("two parts", [], "parts two")
def test_what_holds_a_text_is_among_what_may_hold_it(sought, levels, other):
    said = nested(sought, levels)
    with SimpleMemoryStore() as store, opened(store) as session:
        session.append(
            {"role": "user", "content": said},
            {"role": "user", "content": other},
            call("one", text=said),
            result("one", said),
            {"role": "user", "content": [{"type": "text", "text": each} for each in sought.split(" ")]},
        )
        found = [Entry(each, (at, at + 1)) for at, each in enumerate((said, other, said + other))]
        store.index("a", found)
        store.index("a", [Entry("nothing of it", name=sought.replace("\0", "") or None)])
        holding, wanted = Holding(store._native), criteria(sought)
        meant = [each.entry_id for each in store.entries("a").entries if wanted.entry(each)]
        assert set(meant) <= {each.entry_id for each in holding.entries("a", Sought(sought)).entries}
        seqs = [row.seq for row in rows(store) if wanted.message(row)]
        assert set(seqs) <= set(holding.messages("a", Sought(sought)))


@pytest.fixture
def store(tmp_path) -> Iterator[MemoryStore]:
    with MemoryStore.open(tmp_path) as store:
        yield store


def test_a_hostile_text_is_found(store):
    with opened(store) as session:
        for sought in hostile():
            session.append({"role": "user", "content": f"a {sought} b"})
    store.index("a", [Entry(f"a {sought} b") for sought in hostile()])
    holding = Holding(store._native)
    for place, sought in enumerate(hostile()):
        assert place in holding.messages("a", Sought(sought)), sought
        assert f"a {sought} b" in [each.content for each in holding.entries("a", Sought(sought)).entries], (
            sought
        )


def test_of_many_rows_few_are_looked_at_closely(store):
    with opened(store) as session:
        session.append(*({"role": "user", "content": f"message {number}."} for number in range(2_000)))
    store.index("a", [Entry(f"entry {number}.", (number, number + 1)) for number in range(2_000)])
    holding = Holding(store._native)
    assert [each.content for each in holding.entries("a", Sought("entry 1234.")).entries] == ["entry 1234."]
    assert holding.messages("a", Sought("1234.")) == [1234]
    assert holding.messages("a", Sought("x1234x")) == []
    assert holding.came_from("a", [7, 3]) == [4, 8]
    assert holding.came_from("a", []) == holding.came_from("nobody", [1]) == []
    assert holding.messages("nobody", Sought("a")) == []
    assert holding.entries("nobody", Sought("a")).entries == ()
    assert store.forget(text="entry 1234.").entries == 1
    assert store.forget(session_id="a", start=3, end=5).messages == 2
