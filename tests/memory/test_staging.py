"""Staging: uncommitted entries wait unseen, and are in step with the host's history after any stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from dictionary_store import DictionaryStore
from siltstone.errors import (
    InvalidEntryError,
    ReadOnlyStoreError,
    StageNotFoundError,
    StoreConflictError,
    StoreCorruptError,
)
from siltstone.memory import Entry, Receipt, Store
from siltstone.memory.entry import MAX_FINGERPRINT_BYTES
from siltstone.stores import MemoryStore
from storing import contents, database, elsewhere, entries, message, sql
from summary_log import summary_log


def nobody_sees(store: Store) -> bool:
    return (
        store.search("a", "silt mud") == []
        and store.entries("a").entries == ()
        and (store.stats("a").entries, store.stats().entries) == (0, 0)
    )


def test_mk_67_a_stage_is_invisible_until_it_is_finalized(store: Store) -> None:
    token = store.stage("a", entries("silt", " ", "mud"), "r1")
    assert nobody_sees(store)
    (stage,) = store.stages()
    assert (stage.token, stage.session_id, stage.fingerprint, stage.entries) == (token, "a", "r1", 2)
    assert (store.stats().staged, store.stats("a").staged, store.stats("b").staged) == (2, 2, 0)
    receipt = store.finalize(token)
    assert [entry_id is None for entry_id in receipt.entry_ids] == [False, True, False]
    assert set(contents(store.search("a", "silt mud"))) == {"silt", "mud"}
    assert [store.get(each).content for each in receipt.entry_ids if each] == ["silt", "mud"]
    assert (store.stages(), store.stats().staged, store.stats().entries) == ([], 0, 2)
    assert store.check() == []


def test_mk_67_finalizing_twice_is_finalizing_once(store: Store) -> None:
    token = store.stage("a", entries("silt"), "r1")
    first = store.finalize(token)
    assert store.finalize(token) == first
    assert store.stats().entries == 1
    assert store.stage("a", entries("silt"), "r1") == token, "what is finalized is not staged again"
    assert store.stages() == []
    assert store.finalize(token) == first


def test_mk_67_an_identical_retry_is_one_batch_whatever_the_time(store: Store) -> None:
    token = store.stage("a", [Entry("silt", (0, 1), created_at=1.0)], "r1")
    assert store.stage("a", [Entry("silt", (0, 1), created_at=2.0)], "r1") == token
    assert len(store.stages()) == 1
    store.finalize(token)
    assert contents(store.search("a", "silt")) == ["silt"]


def test_mk_67_a_conflicting_retry_is_an_error_and_changes_nothing(store: Store) -> None:
    token = store.stage("a", entries("silt"), "r1")
    for other in (entries("mud"), entries("silt", "mud"), [], entries("silt", role="tool")):
        with pytest.raises(StoreConflictError, match=r"another batch of fingerprint .r1.") as caught:
            store.stage("a", other, "r1")
        assert caught.value.token == token  # type: ignore[attr-defined]
    assert [stage.token for stage in store.stages()] == [token]
    assert store.stage("b", entries("mud"), "r1") != token, "a fingerprint is one session's own"


def test_mk_67_two_commits_of_the_same_content_are_distinct(store: Store) -> None:
    one, two = (store.stage("a", entries("silt"), each) for each in ("r1", "r2"))
    assert one != two
    assert store.abort(two)
    assert store.finalize(one).indexed == 1
    with pytest.raises(StageNotFoundError):
        store.finalize(two)


def test_mk_67_orphans_are_aborted_and_reported(store: Store) -> None:
    kept, orphan, done = (store.stage("a", entries(text), text) for text in ("silt", "mud", "clay"))
    foreign = store.stage("b", entries("silt"), "r1")
    store.finalize(done)
    report = store.reconcile([kept, done, kept, "0" * 32], session_id="a")
    assert (report.finalized, report.aborted, report.lost) == ((kept,), (orphan,), ("0" * 32,))
    assert set(contents(store.search("a", "silt mud clay"))) == {"silt", "clay"}
    assert [stage.token for stage in store.stages()] == [foreign]
    again = store.reconcile([kept, done], session_id="a")
    assert (again.finalized, again.aborted, again.lost) == ((), (), ())
    assert store.reconcile([], before=1.0).aborted == ()
    assert store.reconcile([]).aborted == (foreign,)
    assert store.check() == []


def test_an_aborted_batch_is_gone_and_a_finalized_one_is_not_aborted(store: Store) -> None:
    token = store.stage("a", entries("silt"), "r1")
    assert (store.abort(token), store.abort(token), store.abort("no such")) == (True, False, False)
    with pytest.raises(StageNotFoundError, match="no batch") as caught:
        store.finalize(token)
    assert caught.value.token == token  # type: ignore[attr-defined]
    assert store.stage("a", entries("silt"), "r1") == token, "its token follows from what it is"
    store.finalize(token)
    with pytest.raises(StoreConflictError, match="was finalized"):
        store.abort(token)
    assert len(store.search("a", "silt")) == 1


def test_mk_68_drop_wins_over_finalize(store: Store) -> None:
    waiting, done = (store.stage("a", entries(text, "more"), text) for text in ("silt", "mud"))
    store.finalize(done)
    assert store.delete_session("a") == 2
    late = store.stage("a", entries("clay"), "late")
    for token, size in ((waiting, 2), (done, 2), (late, 1)):
        assert store.finalize(token) == Receipt((None,) * size)
        assert store.abort(token) is False
    assert store.reconcile([waiting, done, late]).lost == ()
    assert nobody_sees(store)
    assert (store.stages(), store.delete_session("nobody")) == ([], 0)
    assert store.check() == []


def test_a_session_that_only_staged_leaves_a_tombstone_too(store: Store) -> None:
    token = store.stage("a", entries("silt"), "r1")
    assert store.delete_session("a") == 0
    assert store.finalize(token) == Receipt((None,))
    assert store.index("a", entries("silt")).indexed == 0


def test_finalizing_what_the_session_has_keeps_its_id(store: Store) -> None:
    (known,) = store.index("a", entries("silt")).entry_ids
    token = store.stage("a", entries("silt", "mud"), "r1")
    assert store.finalize(token).entry_ids[0] == known
    assert store.stats().entries == 2


def test_a_batch_of_nothing_is_a_batch(store: Store) -> None:
    token = store.stage("a", [], "r1")
    assert store.finalize(token) == Receipt(())
    assert store.finalize(token) == Receipt(())
    blank = store.stage("a", entries(" "), "r2")
    assert store.finalize(blank) == Receipt((None,))


@pytest.mark.parametrize("wrong", ["", "x" * (MAX_FINGERPRINT_BYTES + 1), "é" * 513])
def test_a_fingerprint_out_of_bounds_is_refused(store: Store, wrong: str) -> None:
    with pytest.raises(InvalidEntryError, match="fingerprint must be 1 to 1024 bytes"):
        store.stage("a", entries("silt"), wrong)
    with pytest.raises(InvalidEntryError):
        store.stage("a", [Entry("silt", (3, 1))], "r1")
    assert store.stages() == []


def test_what_waits_is_forgotten_too(store: Store) -> None:
    log = summary_log(store, "a")
    raws = [json.dumps({"role": "user", "content": f"silt {n}"}) for n in range(4)]
    log.append([message(raw) for raw in raws], expected_next=0, clock="")
    token = store.stage("a", [*entries("silt 0", "silt 1"), Entry("a note on mud")], "r1")
    assert store.forget(session_id="a", start=0, end=1).entries == 1
    assert store.forget(text="mud").entries == 1
    assert store.stats().staged == 1
    assert store.stage("a", [*entries("silt 0", "silt 1"), Entry("a note on mud")], "r1") == token
    receipt = store.finalize(token)
    assert [each is None for each in receipt.entry_ids] == [True, False, True]
    assert contents(store.search("a", "silt mud")) == ["silt 1"]
    assert store.check() == []


# -- in a file ----------------------------------------------------------------------------------

FINISH = """
import sys
from siltstone.stores import MemoryStore
with MemoryStore.open(sys.argv[1]) as store:
    print(getattr(store, sys.argv[2])(sys.argv[3]))
"""


def test_mk_67_a_stage_survives_a_reopen_and_is_finalized_by_another_process(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        token = store.stage("a", entries("silt"), "r1")
    with MemoryStore.open(tmp_path) as store:
        assert nobody_sees(store)
        assert store.stage("a", entries("silt"), "r1") == token
        elsewhere(FINISH, tmp_path, "finalize", token)
        assert contents(store.search("a", "silt")) == ["silt"]
        assert store.finalize(token).indexed == 1


def test_mk_68_drop_wins_across_reopen_and_instances(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        token = store.stage("a", entries("silt"), "r1")
        elsewhere(FINISH, tmp_path, "delete_session", "a")
        assert store.finalize(token) == Receipt((None,))
    with MemoryStore.open(tmp_path) as store:
        assert store.finalize(token) == Receipt((None,))
        assert nobody_sees(store)


def test_no_byte_of_what_waited_is_left_after_it_was_forgotten(tmp_path: Path) -> None:
    secret = "the Grünwald plan"
    with MemoryStore.open(tmp_path) as store:
        store.stage("a", [Entry(f"{secret} {n}") for n in range(50)], "r1")
        assert store.forget(text=secret).erased
        held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert "Grünwald".encode() not in held


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("UPDATE staged SET text = 'x' WHERE id = 1", "checksum"),
        ("DELETE FROM staged WHERE id = 1", "stage"),
        ("UPDATE stage SET state = 1", "checksum"),
        ("UPDATE stage SET state = 7", "checksum"),
        ("UPDATE stage SET receipt = 'x'", "checksum"),
        ("DELETE FROM stage", "foreign_key"),
    ],
)
def test_damage_to_what_waits_is_found_and_never_given_back(tmp_path: Path, damage: str, code: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        token = store.stage("a", entries("silt", "mud"), "r1")
        store.index("a", entries("clay"))
    sql(tmp_path, "PRAGMA foreign_keys = OFF", damage)
    with MemoryStore.open(tmp_path) as store:
        assert code in {finding.code for finding in store.check()}
        with pytest.raises((StoreCorruptError, StageNotFoundError)):
            store.finalize(token)
        assert contents(store.search("a", "clay silt mud")) == ["clay"]
        if "staged" in damage:
            assert store.reconcile([token]).lost == (token,), "the host is told to hand it over again"
            assert store.check() == []
            store.stage("a", entries("silt", "mud"), "r1")
            assert store.finalize(token).indexed == 2


def test_a_store_open_for_reading_stages_nothing(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        token = store.stage("a", entries("silt"), "r1")
    before = database(tmp_path).read_bytes()
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert len(store.stages()) == 1
        writes: list[Any] = [
            lambda: store.stage("a", entries("mud"), "r2"),
            lambda: store.finalize(token),
            lambda: store.abort(token),
            lambda: store.reconcile([token]),
        ]
        for write in writes:
            with pytest.raises(ReadOnlyStoreError):
                write()
    assert database(tmp_path).read_bytes() == before


class Hosts(RuleBasedStateMachine):
    """A database and its slow twin are driven alike, and show the same; nothing waits for ever."""

    tokens = Bundle("tokens")

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.place = tempfile.TemporaryDirectory()
        self.real, self.model = MemoryStore.open(self.place.name), DictionaryStore()
        self.pairs: list[tuple[str, str]] = []

    def both(self, call: Any) -> tuple[Any, Any]:
        answers = []
        for store in (self.real, self.model):
            try:
                answers.append(call(store))
            except (StoreConflictError, StageNotFoundError) as error:
                answers.append(type(error))
        return answers[0], answers[1]

    @rule(
        target=tokens,
        session=st.sampled_from("ab"),
        texts=st.lists(st.sampled_from(["silt", "mud", " ", "clay"]), max_size=3),
        name=st.sampled_from("xyz"),
    )
    def stage(self, session: str, texts: list[str], name: str) -> tuple[str, str]:
        batch = [Entry(text, (n, n + 1), created_at=1.0) for n, text in enumerate(texts)]
        real, model = self.both(lambda store: store.stage(session, batch, name))
        assert isinstance(real, str) == isinstance(model, str)
        return (real, model) if isinstance(real, str) else ("", "")

    @rule(pair=tokens)
    def finalize(self, pair: tuple[str, str]) -> None:
        real, model = self.both(lambda store: store.finalize(pair[store is self.model]))
        if isinstance(model, Receipt):
            assert [each is None for each in real.entry_ids] == [each is None for each in model.entry_ids]
        else:
            assert real == model

    @rule(pair=consumes(tokens))
    def abort(self, pair: tuple[str, str]) -> None:
        real, model = self.both(lambda store: store.abort(pair[store is self.model]))
        assert real == model

    @rule(pairs=st.lists(tokens, max_size=3), session=st.sampled_from(["a", "b", None]))
    def reconcile(self, pairs: list[tuple[str, str]], session: str | None) -> None:
        real, model = self.both(
            lambda store: store.reconcile([pair[store is self.model] for pair in pairs], session_id=session)
        )
        for each in ("finalized", "aborted", "lost"):
            assert len(getattr(real, each)) == len(getattr(model, each)), each

    @rule(session=st.sampled_from("ab"))
    def delete_session(self, session: str) -> None:
        assert len({store.delete_session(session) for store in (self.real, self.model)}) == 1

    @rule(text=st.sampled_from(["silt", "mud"]))
    def forget(self, text: str) -> None:
        assert self.real.forget(text=text).entries == self.model.forget(text=text).entries

    @invariant()
    def they_show_the_same(self) -> None:
        for session in "ab":
            shown = [
                (
                    [entry.content for entry in store.entries(session).entries],
                    sorted((each.fingerprint, each.entries) for each in store.stages(session)),
                    store.stats(session).staged,
                )
                for store in (self.real, self.model)
            ]
            assert shown[0] == shown[1]

    def teardown(self) -> None:
        assert self.real.check() == []
        self.real.close()
        self.place.cleanup()


Hosts.TestCase.settings = settings(suppress_health_check=[HealthCheck.too_slow], stateful_step_count=15)
TestHosts = Hosts.TestCase


ELSEWHERE = """
import sys
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from summary_log import summary_log
with MemoryStore.open(sys.argv[1]) as store:
    token = store.stage("a", [Entry("silt settles", (0, 1)), Entry("mud flows", (1, 2))], "one")
    print(token, *store.finalize(token).entry_ids)
"""


def test_a_batch_is_one_batch_whichever_process_stages_and_finalizes_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        batch = [Entry("silt settles", (0, 1)), Entry("mud flows", (1, 2))]
        token = store.stage("a", batch, "one")
        there, *ids = elsewhere(ELSEWHERE, tmp_path).split()
        assert there == token
        assert store.finalize(token) == Receipt(tuple(map(int, ids)))
        assert store.stages() == []
        assert store.reconcile([token]).lost == ()
        with pytest.raises(StoreConflictError):
            store.abort(token)
        assert len(store.entries("a").entries) == 2
