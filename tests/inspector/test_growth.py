"""How a store grew, and what of it leaves by itself: by day, and by when entries expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from siltstone import Entry, SimpleMemoryStore
from siltstone.figures import growth, keeping
from siltstone.memory.log import NewMessage

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_each_message_counts_on_its_day_however_many_there_are() -> None:
    store = SimpleMemoryStore()
    for name, ages in (("a", [40, 29, 29, 3, 0]), ("b", [0] * 1_200), ("c", [45])):
        log, raw = store.open_log(name), '{"role":"user","content":"ä"}'
        messages = [
            NewMessage(raw, "user", "any", "original", 1, int((NOW - timedelta(days=age)).timestamp() * 1000))
            for age in ages
        ]
        version = log.version()
        assert version is not None
        log.append(messages, expected=version, clock="", write_id=1)
    days = growth(store, NOW.date())
    assert (len(days), days[0].day, days[-1].day) == (30, NOW.date() - timedelta(days=29), NOW.date())
    assert {day.day: day.messages for day in days if day.messages} == {
        NOW.date() - timedelta(days=29): 2, NOW.date() - timedelta(days=3): 1, NOW.date(): 1_201,
    }  # fmt: skip
    assert all(day.bytes == day.messages * len('{"role":"user","content":"ä"}'.encode()) for day in days)


def test_entries_that_expire_are_told_apart_from_those_that_stay() -> None:
    store = SimpleMemoryStore()
    assert keeping(store, NOW) == (found := keeping(store, NOW))
    assert (found.entries, found.next_at, found.oldest_at) == (0, None, None)
    said = NOW - timedelta(days=2)
    ttls = [None, timedelta(days=1), timedelta(days=3), timedelta(days=5)]
    store.index("s", [Entry(f"silt {n}", created_at=said, ttl=ttl) for n, ttl in enumerate(ttls)])
    found = keeping(store, NOW)
    assert (found.entries, found.expiring, found.expired) == (4, 3, 1)
    assert (found.next_at, found.oldest_at) == (said + timedelta(days=3), said)
