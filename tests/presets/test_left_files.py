"""Do the files of a preset keep nothing of what was deleted or forgotten in the store beside them?"""

import json
from pathlib import Path

import pytest

from siltstone import ConfigError, Entry, MemoryStore, Session, presets
from siltstone.archive.files import read_vectors
from siltstone.archive.records import read_segments
from siltstone.errors import StoreIoError
from siltstone.memory import forgetting
from siltstone.memory.forgetting import Criteria, Holding

WINDOW = 16_000
LAKE = Criteria.of({"text": "Entry 3: the falcon of lake"})


def river(place: Path, name: str = "river") -> None:
    """A session with a vault of 20 memories and both summaries."""
    preset = presets.waterfall(immediate_window=4, recent_window=4)
    with Session.open(place, name, preset=preset, context_window=WINDOW) as session:
        for number in range(20):
            session.append({"role": "user", "content": f"Entry {number}: the falcon of {name}."})
            session.prepare()


def claw(place: Path, name: str = "claw") -> None:
    """A session with an archive of messages, vectors and a fact."""
    with Session.open(place, name, preset="openclaw", context_window=WINDOW) as session:
        for number in range(30):
            role = "assistant" if number % 2 else "user"
            text = f"Note {number}: the falcon of {name}. " + "filler " * 300
            session.append({"role": role, "content": text})
            session.prepare()
        session.save(f"The falcon of {name} nests in Falkenburg", "decision")


def texts(folder: Path) -> str:
    return "\n".join(
        path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()
    )


def test_a_deleted_session_leaves_nothing_in_its_vault_but_what_others_put_there(tmp_path: Path):
    river(tmp_path)
    river(tmp_path, "lake")
    own = tmp_path / "vault" / "lake" / "memories" / "mine.md"
    own.write_text("my own words", encoding="utf-8")
    with MemoryStore.open(tmp_path) as store:
        store.delete_session("river")
        assert not (tmp_path / "vault" / "river").exists()
        assert "falcon of lake" in texts(tmp_path / "vault" / "lake")
        store.delete_session("lake")
        assert list((tmp_path / "vault").rglob("*.md")) == [own]
        store.revive("river")
    river(tmp_path)
    assert "falcon of river" in texts(tmp_path / "vault" / "river")


def test_a_deleted_session_leaves_the_archive_and_the_others_of_it_stay(tmp_path: Path):
    claw(tmp_path)
    claw(tmp_path, "other")
    folder = tmp_path / "memory" / "context"
    with MemoryStore.open(tmp_path) as store:
        store.delete_session("claw")
    segments = list(read_segments(folder / "segments.jsonl"))
    assert {each.session_id for each in segments} == {"other"}
    vectors = read_vectors(folder / "vectors.bin")
    assert vectors is not None
    assert set(vectors.by_id) == {each.id for each in segments}
    facts = [json.loads(line) for line in (folder / "knowledge.jsonl").read_text("utf-8").splitlines()]
    assert {each["sessionId"] for each in facts} == {"other"}
    assert "falcon of claw" not in texts(folder)


def test_what_a_store_forgets_is_out_of_the_files_when_it_returns(tmp_path: Path):
    river(tmp_path / "river")
    with MemoryStore.open(tmp_path / "river") as store:
        assert store.forget(text="Entry 3:").erased
    found = texts(tmp_path / "river" / "vault")
    assert "Entry 3:" not in found
    assert "Entry 4:" in found

    claw(tmp_path / "claw")
    folder = tmp_path / "claw" / "memory" / "context"
    assert "Note 3:" in texts(folder)
    with MemoryStore.open(tmp_path / "claw") as store:
        assert store.forget(text="Note 3:").erased
        assert "Note 3:" not in texts(folder)
        assert "Note 5:" in texts(folder)
        [fact] = [json.loads(line) for line in (folder / "knowledge.jsonl").read_text("utf-8").splitlines()]
        assert store.forget(fact_ids=[fact["id"]]).facts == 1
    assert "nests in Falkenburg" not in texts(folder)


def test_files_that_a_killed_process_left_are_cleared_by_the_next_forget_of_the_text(tmp_path: Path):
    river(tmp_path)
    river(tmp_path, "lake")
    claw(tmp_path / "claw")
    vault, context = tmp_path / "vault", tmp_path / "claw" / "memory" / "context"
    unused = vault / "unused" / "memories" / "mine.md"
    unused.parent.mkdir(parents=True)
    unused.write_text("the falcon of all", encoding="utf-8")  # for a session that is yet to come
    own = vault / "lake" / "memories" / "mine.md"
    own.write_text("the falcon of all", encoding="utf-8")
    line = json.loads((context / "segments.jsonl").read_text("utf-8").splitlines()[0])
    others = [
        line | {"id": name, "sessionId": "elsewhere", "content": f"the falcon of {name}"} for name in "xy"
    ]
    with (context / "segments.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in others)
    for place, name in ((tmp_path, "river"), (tmp_path / "claw", "claw")):
        with MemoryStore.open(place) as store:  # the process dies before the files are updated
            store._native.delete_session(name)
            assert store.forget(text="falcon of mars").erased
            assert store.forget(text=f"falcon of {name}").erased
    with MemoryStore.open(tmp_path) as store:
        store._native.forget(forgetting.plan(store, ["lake"], LAKE, Holding(store._native)).targets, "")
        assert "Entry 3: the falcon of lake" in texts(vault)
        assert store.forget(text="Entry 3: the falcon of lake", session_id="lake").erased
        assert store.forget(text="Entry 4: the falcon of lake", before=1.0).erased
        report = store.forget(text="falcon of all")
        assert (report.erased, report.remaining) == (False, ("files",))
    assert own.exists()
    assert unused.exists()
    assert not (vault / "river").exists()
    assert "Entry 3: the falcon of lake" not in texts(vault)
    assert "Entry 4: the falcon of lake" in texts(vault)
    assert "falcon of claw" not in texts(context)
    with MemoryStore.open(tmp_path / "claw") as store:
        assert not store.forget(text="the falcon of x").erased, "a session of another store is not touched"
    assert texts(context).count("elsewhere") == 2


def test_what_is_forgotten_while_a_session_is_open_does_not_come_back_by_its_own_archive(tmp_path: Path):
    claw(tmp_path)
    folder = tmp_path / "memory" / "context"
    with (
        Session.open(tmp_path, "claw", preset="openclaw", context_window=WINDOW) as session,
        MemoryStore.open(tmp_path) as store,
    ):
        store.forget(text="Note 3:")
        for number in range(30, 36):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"Note {number}: " + "filler " * 300})
            session.prepare()
        assert "Note 3:" not in texts(folder)
    assert "Note 3:" not in texts(folder)


def test_files_that_cannot_be_deleted_are_told_of_and_go_with_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    river(tmp_path)

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    with MemoryStore.open(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refuse)
            report = store.forget(text="Entry 3:")
            assert (report.erased, report.remaining) == (False, ("files",))
            with pytest.raises(StoreIoError, match="cannot be"):
                store.delete_session("river")
        assert store.delete_session("river") == 0, "the session was deleted before"
    assert not (tmp_path / "vault" / "river").exists()


def test_a_preset_is_known_behind_any_number_of_sessions_without_one(tmp_path: Path):
    with MemoryStore.open(tmp_path) as store:
        for number in range(120):
            store.index(f"plain-{number}", [Entry("words")])
        with Session.open(None, "claw", memory=store, preset="openclaw", context_window=WINDOW) as session:
            session.append({"role": "user", "content": "hello"})
        before = store.stats().messages, len(store.sessions(limit=1000).sessions)
        with pytest.raises(ConfigError, match="'claw'"):
            Session.open(None, "river", memory=store, preset="waterfall", context_window=WINDOW)
        with pytest.raises(ConfigError, match="preset 'openclaw'"):
            Session.open(None, "new", memory=store, context_window=WINDOW)
        assert (store.stats().messages, len(store.sessions(limit=1000).sessions)) == before
        Session.open(None, "plain-3", memory=store, context_window=WINDOW, preset=None).close()
        Session.open(None, "more", memory=store, preset="openclaw", context_window=WINDOW).close()
        store.delete_session("claw")
        store.delete_session("more")
        Session.open(None, "river", memory=store, preset="waterfall", context_window=WINDOW).close()
