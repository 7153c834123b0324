"""The vault of waterfall: is it in step with its session, and is one that was there taken over?"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playing_presets import waterfall_of
from siltstone import Session, presets
from siltstone.systems.waterfall.vault import Vault, VaultMemory, VaultSummary


def test_the_vault_has_every_message_and_both_summaries_of_the_last_run(tmp_path: Path) -> None:
    waterfall_of(tmp_path, 20)
    found = Vault(tmp_path / "vault", "chat").read()
    assert [memory.seq for memory in found.memories] == list(range(20))
    assert found.memories[3].content == "Entry 3: the river rose to 3 cm."
    assert found.recent is not None
    assert found.longterm is not None
    assert (found.longterm.covers, found.recent.covers) == ((0, 9), (9, 13))
    assert len(found.copies) == 3
    assert not found.unreadable


def test_a_vault_that_was_left_behind_is_completed_and_what_is_wrong_leaves_it(tmp_path: Path) -> None:
    waterfall_of(tmp_path, 20)
    folder = Vault(tmp_path / "vault", "chat").path
    memories = sorted((folder / "memories").glob("*.md"))
    memories[0].unlink()
    memories[1].write_text("", encoding="utf-8")  # what a power cut leaves
    memories[2].write_text(memories[3].read_text("utf-8"), encoding="utf-8")
    (folder / "summaries" / "recent.md").unlink()
    waterfall_of(tmp_path, 0)
    found = Vault(tmp_path / "vault", "chat").read()
    assert [memory.seq for memory in found.memories] == list(range(20))
    assert found.recent is not None
    assert not found.unreadable


def test_two_writers_of_one_session_write_each_message_once(tmp_path: Path) -> None:
    small = presets.waterfall(immediate_window=4, recent_window=4)

    def opened() -> Session:
        return Session.open(
            tmp_path, "chat", preset=small, context_window=64_000, model=lambda _: "A summary."
        )

    with opened() as one, opened() as other:
        for number in range(0, 24, 2):
            for session, what in ((one, number), (other, number + 1)):
                session.reload()
                session.append({"role": "user", "content": f"Entry {what}."})
                session.prepare()
        one.reload()
        one.forget(text="Entry 3.")
        other.append({"role": "user", "content": "Entry 24."})
        one.reload()
        one.append({"role": "user", "content": "Entry 25."})
    found = Vault(tmp_path / "vault", "chat").read()
    assert [memory.seq for memory in found.memories if "Entry" in memory.content] == [
        number for number in range(26) if number != 3
    ]
    assert len({memory.seq for memory in found.memories}) == len(found.memories)
    texts = [each.covers for each in found.copies]
    assert len(set(texts)) == len(texts)


def refusing(request: Any) -> str:
    raise AssertionError("nothing is to be written anew")


def test_a_new_session_begins_with_the_memories_and_the_summaries_of_its_vault(tmp_path: Path) -> None:
    """No model is asked: both summaries, the counters, the copies and the times are those of the files."""
    waterfall_of(tmp_path / "old", 20)
    before = Vault(tmp_path / "old" / "vault", "chat").read()
    (tmp_path / "old" / "vault").rename(tmp_path / "vault")
    small = presets.waterfall(immediate_window=4, recent_window=4)
    with Session.open(tmp_path, "chat", preset=small, context_window=64_000, model=refusing) as session:
        assert [raw["content"][:8] for raw in session.log()][:2] == ["Entry 0:", "Entry 1:"]
        assert len(session.log()) == 20
        [told] = session.compactions()
        assert told.covers == ((0, 13),), "and nothing more"
        assert session.prepare().history[-7:] == session.log()[-7:]
        assert [each.covers for each in told.summaries][:2] == [((0, 9),), ((9, 13),)]
        assert session.memory_status().line == "[Memory: OK]"
        session.append({"role": "user", "content": "Entry 20: the river rose to 20 cm."})
        assert session.usage.input_tokens == 0
    after = Vault(tmp_path / "vault", "chat").read()
    assert after.memories[:20] == before.memories
    assert (after.recent, after.longterm, after.copies) == (before.recent, before.longterm, before.copies)
    waterfall_of(tmp_path, 1, start=20)
    assert len(Vault(tmp_path / "vault", "chat").read().copies) == len(before.copies) + 1


def test_a_vault_of_another_hand_keeps_its_times_and_what_else_it_says(tmp_path: Path) -> None:
    """Numbers with gaps, a summary of what came before them, and no role."""
    vault = Vault(tmp_path / "vault", "chat")
    for number in range(0, 60, 3):
        at = datetime(2026, 1, 2, 3, 4, number, tzinfo=UTC)
        vault.add(VaultMemory(f"Entry {number}.", at, number, {"location": "Passau", "event_type": "said"}))
    day = datetime(2026, 1, 3, tzinfo=UTC)
    vault.save(
        VaultSummary("It began.", "longterm", day, (0, 21), 45, 2),
        VaultSummary("It went on.", "recent", day, (21, 33), 45),
    )
    small = presets.waterfall(immediate_window=4, recent_window=4)
    with Session.open(tmp_path, "chat", preset=small, context_window=64_000, model=refusing) as session:
        shown = [str(raw["content"]) for raw in session.history()]
        assert "It began." in shown[0]
        assert "It went on." in shown[1]
        assert shown[2:] == [f"Entry {number}." for number in range(33, 60, 3)]
        assert [each.covers for each in session.compactions()[0].summaries] == [((0, 7),), ((7, 11),)]
    found = Vault(tmp_path / "vault", "chat").read()
    assert [memory.seq for memory in found.memories] == list(range(20))
    assert [memory.at.second for memory in found.memories] == list(range(0, 60, 3))
    assert all(memory.metadata["location"] == "Passau" for memory in found.memories)


def test_summaries_of_a_vault_that_do_not_fit_its_memories_are_made_again(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault", "chat")
    day = datetime(2026, 1, 2, tzinfo=UTC)
    for number in range(9):
        vault.add(VaultMemory(f"Entry {number}.", day, number))
    vault.save(VaultSummary("It went on.", "recent", day, (4, 5), 9))  # and nothing stands for 0 to 4
    small = presets.waterfall(immediate_window=4, recent_window=4)
    with Session.open(tmp_path, "chat", preset=small, context_window=64_000) as session:
        assert session.history() == session.log()
        session.prepare()
        assert session.compactions()[0].covers == ((0, 5),)
