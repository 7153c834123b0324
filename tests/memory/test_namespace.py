"""Searches of a namespace: held against the slow twin over all that its sessions said, and against what must
never be seen."""

import itertools
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from conftest import SEQUENCES
from reference import analyse, lexical
from siltstone.errors import ConfigError, InvalidEntryError
from siltstone.memory import Entry, SearchHit, Store
from siltstone.memory.convert import new_entry
from siltstone.memory.log import CommitReceipt, NewCompaction, NewMessage, SessionVersion
from siltstone.stores import MemoryStore, SimpleMemoryStore
from storing import STRANGE_IDS, contents, elsewhere

DAY = 86_400_000


def said(text: str, at: int = 1_000, **fields: Any) -> NewMessage:
    raw = {"role": "user", "content": text} | fields
    return NewMessage(json.dumps(raw), raw["role"], "any", "original", 3, at)


def append(store: Store, session: str, *messages: NewMessage, namespace: str = "acme") -> SessionVersion:
    log = store.open_log(session)
    version = log.append(messages, expected=log.open(namespace).version, clock="{}", write_id=len(messages))
    assert version is not None
    return version


def speak(store: Store, session: str, *texts: str, namespace: str = "acme") -> None:
    append(store, session, *(said(text) for text in texts), namespace=namespace)


def discard(store: Store, session: str, end: int, *, entries: Sequence[Entry]) -> CommitReceipt:
    """A compaction after which the view is what follows message *end*."""
    log = store.open_log(session)
    state = log.state()
    row = NewCompaction(
        policy="threshold", reason="manual", covers=((0, end),), view=((end, state.next_seq),), derived=(),
        next_seq=state.next_seq, model="", usage="[]", state="", tokens_before=9, tokens_after=3,
        messages_before=state.next_seq, messages_after=state.next_seq - end, created_at=2_000,
    )  # fmt: skip
    rows = [new_entry(each) for each in entries]
    return log.commit(row, rows, expected=state.version, clock="{}", write_id=7)


def across(store: Store, session: str, query: str, limit: int = 20, **options: Any) -> list[SearchHit]:
    return store.search(session, query, limit, scope="namespace", **options)


@pytest.fixture(params=["durable", "simple"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with MemoryStore.open(tmp_path) if request.param == "durable" else SimpleMemoryStore() as opened:
        yield opened


def test_no_namespace_is_never_a_shared_one(store: Store) -> None:
    for session in ("a", "b"):
        store.index(session, [Entry(f"the kettle of {session}", (0, 1))])
        speak(store, session, "the kettle", namespace="")
        assert store.open_log(session).state().namespace == ""
    assert contents(across(store, "a", "kettle")) == ["the kettle of a"]
    assert across(store, "nobody", "kettle") == []
    assert across(store, "a", "kettle", 0) == []


def test_two_namespaces_never_see_each_other(store: Store) -> None:
    twins = [
        *[name for name in STRANGE_IDS if name.strip()],
        "acme", "acme/", "acme/user-4", "acme/user-42", "acme/user-42/", "ACME/user-42", "acme/user-42 ",
        "acme/%", "acme/_", "ñ", unicodedata.normalize("NFD", "ñ"), "ﬁ", "fi", "Å", "\u212b", "a\u200b", "а",
    ]  # fmt: skip
    namespaces = list(dict.fromkeys(twins))
    for number, namespace in enumerate(namespaces):
        speak(store, f"s{number}", f"kettle number {number}", namespace=namespace)
        store.open_log(f"t{number}").open(namespace)
    for number in range(len(namespaces)):
        found = across(store, f"t{number}", "kettle number", 1_000)
        assert contents(found) == [f"kettle number {number}"], namespaces[number]


def test_calls_and_answers_of_our_own_tools_are_not_found(store: Store) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "memory_search", "arguments": "{}"}}
    asked = NewMessage(
        json.dumps({"role": "assistant", "content": None, "tool_calls": [call]}),
        "assistant", "openai.chat", "original", 3, 1_000,
    )  # fmt: skip
    answer = NewMessage(
        json.dumps({"role": "tool", "tool_call_id": "1", "content": "the kettle"}),
        "tool", "openai.chat", "original", 3, 1_000,
    )  # fmt: skip
    append(store, "a", asked)
    speak(store, "b", "x")
    assert across(store, "b", "kettle") == []
    append(store, "a", answer)  # its call was read before
    assert across(store, "b", "kettle") == []
    speak(store, "a", "a kettle")
    assert contents(across(store, "b", "kettle"))[0] == "a kettle"


def test_what_is_forgotten_expired_and_deleted_is_found_by_nobody(store: Store) -> None:
    speak(store, "a", "a secret kettle", "another kettle", "a kettle that was let go")
    speak(store, "b", "the kettle of b")
    speak(store, "asks", "x")
    assert len(across(store, "asks", "kettle")) == 4
    store.forget(session_id="a", text="secret")
    assert "secret" not in "".join(contents(across(store, "asks", "kettle")))
    discard(store, "a", 3, entries=[Entry("a kettle that was let go", (2, 3), created_at=1.0)])
    assert sorted(contents(across(store, "asks", "kettle"))) == [
        "a kettle that was let go",
        "the kettle of b",
    ]
    store.expire("a", keep=0)
    assert contents(across(store, "asks", "kettle")) == ["the kettle of b"]
    store.delete_session("b")
    assert across(store, "asks", "kettle") == []
    store.revive("b")
    speak(store, "b", "kettle again")
    assert contents(across(store, "asks", "kettle")) == ["kettle again"]


def test_limits_hold_for_namespaces_too(store: Store) -> None:
    speak(store, "a", *(f"kettle {number}" for number in range(9)))
    speak(store, "b", "x")
    assert len(across(store, "b", "kettle", 4)) == 4
    with pytest.raises(ConfigError, match="scope must be 'session' or 'namespace', got 'store'"):
        store.search("a", "kettle", scope="store")  # type: ignore[arg-type]


ANOTHER = """
import json, sys
from siltstone.stores import MemoryStore
from siltstone.memory.log import NewMessage
with MemoryStore.open(sys.argv[1]) as store:
    print(store.search("b", "kettle", scope="namespace")[0].content)
    log = store.open_log("a")
    raw = json.dumps({"role": "user", "content": "a second kettle"})
    message = NewMessage(raw, "user", "any", "original", 3, 1_000)
    log.append([message], expected=log.state().version, clock="{}", write_id=3)
    store.forget(session_id="a", start=0, end=1)
"""


def test_another_process_sees_what_was_said_here_and_is_seen(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        speak(store, "a", "the kettle hums")
        speak(store, "b", "x")
        assert contents(across(store, "b", "kettle")) == ["the kettle hums"]
        seen = elsewhere(ANOTHER, tmp_path)
        assert seen.strip() == "the kettle hums"
        assert contents(across(store, "b", "kettle")) == ["a second kettle"]


WORDS = ["silt", "river", "delta", "kettle", "slow", "the"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
SESSIONS = ["a", "b", "c"]


class NamespaceMachine(RuleBasedStateMachine):
    """Three sessions of a namespace, beside a plain list of what can be found of each.

    What a search gives is what the slow twin gives over that list, whether the index grew with what was said
    or was made of all of it at once.
    """

    _folders = itertools.count()
    folder: Path

    @initialize()
    def begin(self) -> None:
        self.path = self.folder / str(next(self._folders))
        self.store = MemoryStore.open(self.path)
        self.logs: dict[str, list[tuple[str, int, bool]]] = {session: [] for session in SESSIONS}
        self.left = dict.fromkeys(SESSIONS, 0)
        self.entries: dict[int, tuple[str, Entry]] = {}
        self.heads: dict[str, list[tuple[int, list[int]]]] = {session: [] for session in SESSIONS}
        for session in SESSIONS:
            self.store.open_log(session).open("acme")

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    @rule(
        session=st.sampled_from(SESSIONS),
        texts=st.lists(TEXTS, min_size=1, max_size=3),
        day=st.integers(0, 2),
    )
    def speak(self, session: str, texts: list[str], day: int) -> None:
        at = day * DAY + 1_000
        append(self.store, session, *(said(text, at) for text in texts))
        self.logs[session] += [(text, at, False) for text in texts]

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 3))
    def compact(self, session: str, count: int) -> None:
        start, log = self.left[session], self.logs[session]
        end = min(start + count, len(log))
        if end == start:
            return
        given_ = [
            Entry(text, (seq, seq + 1), created_at=at / 1000)
            for seq, (text, at, gone) in enumerate(log[start:end], start)
            if not gone
        ]
        receipt = discard(self.store, session, end, entries=given_)
        ids = [each for each in receipt.entry_ids if each is not None]
        fresh = [each for each in ids if each not in self.entries]
        self.entries |= dict(zip(ids, ((session, entry) for entry in given_), strict=True))
        self.heads[session].append((start, fresh))
        self.left[session] = end

    @rule(session=st.sampled_from(SESSIONS))
    def undo(self, session: str) -> None:
        if not self.heads[session]:
            return
        handle = self.store.open_log(session)
        handle.undo(expected=handle.state().version, clock="{}", write_id=8)
        self.left[session], gone = self.heads[session].pop()
        for entry_id in gone:
            self.entries.pop(entry_id, None)

    @rule(session=st.sampled_from(SESSIONS), text=TEXTS, start=st.integers(0, 5), length=st.integers(0, 2))
    def index(self, session: str, text: str, start: int, length: int) -> None:
        entry = Entry(text, (start, start + length), created_at=1.0)
        (entry_id,) = self.store.index(session, [entry]).entry_ids
        assert entry_id is not None
        self.entries.setdefault(entry_id, (session, entry))
        for head in self.heads.values():  # what a caller indexed stays when a compaction is undone
            for _, fresh in head:
                if entry_id in fresh:
                    fresh.remove(entry_id)

    @rule(session=st.sampled_from(SESSIONS), seq=st.integers(0, 6))
    def forget(self, session: str, seq: int) -> None:
        if seq >= len(self.logs[session]):
            return
        self.store.forget(session_id=session, start=seq, end=seq + 1)
        log, own = self.logs[session], [each for each in self.entries if self.entries[each][0] == session]
        behind = {each: {*range(len(log))[slice(*self.entries[each][1].source_range)]} for each in own}
        gone = {seq}.union(*(seqs for seqs in behind.values() if seq in seqs))  # an entry, and all behind it
        log[:] = [(text, at, was or each in gone) for each, (text, at, was) in enumerate(log)]
        for entry_id in own:
            if behind[entry_id] & gone:
                del self.entries[entry_id]

    @rule(session=st.sampled_from(SESSIONS))
    def expire(self, session: str) -> None:
        self.store.expire(session, keep=1)
        own = [each for each, (owner, _) in self.entries.items() if owner == session]
        own.sort(key=lambda each: (self.entries[each][1].created_at, each))
        for entry_id in own[:-1]:
            del self.entries[entry_id]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = MemoryStore.open(self.path)

    def expected(self, asking: str, query: str) -> list[tuple[str, str, int, float]]:
        """Session, text, entry id and score of what the twin finds, in its order."""
        points: list[tuple[str, int, lexical.Entry]] = []
        for number, session in enumerate(SESSIONS):
            base = number * 1_000_000
            own = {each: entry for each, (owner, entry) in self.entries.items() if owner == session}
            known = {(entry.content, *entry.source_range, entry.created_at) for entry in own.values()}
            for seq, (text, at, gone) in enumerate(self.logs[session]):
                if seq >= self.left[session] and not gone and (text, seq, seq + 1, at / 1000) not in known:
                    twin = lexical.Entry(text, (base + seq, base + seq + 1), created_at=at)
                    points.append((session, -(number << 32) - seq - 1, twin))
            for entry_id, entry in sorted(own.items()):
                start, end = entry.source_range
                moved = (base + start, base + end) if start < end else (0, 0)
                at = int(float(entry.created_at) * 1000)  # type: ignore[arg-type]
                points.append((session, entry_id, lexical.Entry(entry.content, moved, created_at=at)))
        twins = [twin for _, _, twin in points]
        (scored,) = lexical.scores([query], twins)
        ranked = [lexical.each_once([each], twins, query)[0] for each in scored]
        found = [(points[place][0], points[place][2], points[place][1], score) for place, score in ranked]
        found.sort(key=lambda each: (-each[3], -each[1].created_at, each[2]))
        once: dict[str, tuple[str, str, int, float]] = {}
        for session, twin, label, score in found:
            if label >= 0 or session != asking:
                hit = session, twin.content, max(0, label), score
                once.setdefault(analyse.whole(twin.content), hit)
        return list(once.values())

    @invariant()
    def what_is_found_is_what_the_twin_finds(self) -> None:
        if not hasattr(self, "store"):
            return
        asking, query = SESSIONS[len(self.entries) % 3], "river silt kettle"
        expected = self.expected(asking, query)
        found = across(self.store, asking, query, 100)
        shown = [(hit.session_id, hit.content, hit.entry_id) for hit in found]
        assert shown == [each[:3] for each in expected]
        assert [hit.score for hit in found] == pytest.approx([each[3] for each in expected], rel=1e-12)


def test_a_namespace_finds_what_the_slow_twin_finds(tmp_path: Path) -> None:
    machine = type("Machine", (NamespaceMachine,), {"folder": tmp_path})
    run_state_machine_as_test(machine, settings=settings(max_examples=SEQUENCES, stateful_step_count=15))


def test_the_facts_of_a_name_that_is_no_text_are_those_of_no_other_namespace() -> None:
    """A lone surrogate becomes another character at the wall, under which a namespace may have facts."""
    with SimpleMemoryStore() as store:
        store.open_log("a").open("\ufffd")
        store.put_facts("a", [(None, "1", "fact", '{"content": "silt settles"}')])
        assert len(store.namespace_facts("\ufffd")) == 1
        with pytest.raises(InvalidEntryError, match="surrogate"):
            store.namespace_facts("\udc80")
