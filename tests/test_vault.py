"""The vault: files that people read, whole or not at all, none written over, and read back as they were."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import siltstone.systems.waterfall.vault as vault_room
from siltstone import ConfigError
from siltstone.systems.waterfall.vault import Vault, VaultMemory, VaultSummary, folder_name

AT = datetime(2026, 2, 15, 18, 49, 2, tzinfo=UTC)


def recent(text: str = "I went on.", at: datetime = AT) -> VaultSummary:
    return VaultSummary(text, "recent", at, (65, 129), last=193)


def longterm(text: str = "Long ago.") -> VaultSummary:
    return VaultSummary(text, "longterm", AT, (0, 65), last=193, level=2)


def test_wf_15_summaries_and_a_timestamped_copy_have_the_stated_front_matter(tmp_path: Path):
    vault = Vault(tmp_path, "Ann")
    vault.save(longterm(), recent())
    assert (vault.path / "summaries" / "recent.md").read_text("utf-8") == (
        "---\ntype: memory_summary\nsummary_type: recent\nupdated: 2026-02-15T18:49:02.000Z\n"
        "memory_count: 64\ncovers_start: 65\ncovers_end: 129\nlevel: 1\nlast: 193\n---\n\n"
        "# Recent Memory Summary\n\nI went on.\n"
    )
    files = sorted(path.name for path in (vault.path / "summaries").iterdir())
    assert files == ["longterm.md", "recent-20260215-184902.md", "recent.md"]
    found = vault.read()
    assert found.recent == recent()
    assert found.longterm == longterm()
    assert found.copies == (recent(),)


def test_wf_16_two_runs_in_one_second_leave_two_copies(tmp_path: Path):
    vault = Vault(tmp_path, "Ann")
    vault.save(recent("one"))
    vault.save(recent("two", AT + timedelta(milliseconds=500)))
    copies = vault.read().copies
    assert [copy.text for copy in copies] == ["one", "two"]
    assert (vault.path / "summaries" / "recent-20260215-184902-2.md").exists()


def test_wf_17_two_entries_in_one_second_are_both_kept(tmp_path: Path):
    vault = Vault(tmp_path, "Ann")
    for seq, text in enumerate(["one", "two", "three"]):
        vault.add(VaultMemory(text, AT, seq))
    names = sorted(path.name for path in (vault.path / "memories").iterdir())
    assert names == [f"20260215-184902-memory{end}.md" for end in ("-2", "-3", "")]
    assert [memory.content for memory in vault.read().memories] == ["one", "two", "three"]


def test_wf_18_a_stop_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    vault = Vault(tmp_path, "Ann")
    vault.save(longterm("old"))

    def stop(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(vault_room.Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        vault.save(longterm("new"))
    monkeypatch.undo()
    assert vault.read().longterm == longterm("old")
    assert [path.name for path in (vault.path / "summaries").iterdir()] == ["longterm.md"]


@pytest.mark.parametrize(
    "memory", [VaultMemory(" \n", AT), VaultMemory("wind", AT, metadata={"event_type": "ambient"})]
)
def test_wf_28_ambient_and_empty_entries_are_not_stored(tmp_path: Path, memory: VaultMemory):
    vault = Vault(tmp_path, "Ann")
    assert vault.add(memory) is None
    assert vault.read().memories == ()


def test_wf_30_a_colon_in_a_value_and_a_heading_in_a_memory_survive(tmp_path: Path):
    vault = Vault(tmp_path, "Ann")
    memory = VaultMemory("# Memory\n\nI read: # Memory", AT, 7, {"location": "Room: 5", "occupants": "a, b"})
    vault.add(memory)
    assert vault.read().memories == (memory,)


@pytest.mark.parametrize("name", ["type", "timestamp", "seq", "a:b", "", " a", "a\nb"])
def test_wf_30_a_field_that_would_not_come_back_is_refused_with_its_name(tmp_path: Path, name: str):
    vault = Vault(tmp_path, "Ann")
    with pytest.raises(ConfigError) as refused:
        vault.add(VaultMemory("I went out.", AT, 1, {"location": "Room", name: "x"}))
    assert (vars(refused.value)["field"], vars(refused.value)["value"]) == ("metadata", name)
    assert vault.read().memories == ()


def test_wf_30_what_another_program_has_written_can_be_written_again(tmp_path: Path):
    vault = Vault(tmp_path, "Ann")
    head = "---\ntype: memory\n\ntimestamp: 2026-02-15T18:49:02Z\n: x\ntags\n- one: two: three\n---\n\n"
    (vault.path / "memories").mkdir()
    (vault.path / "memories" / "a-memory.md").write_text(f"{head}# Memory\n\nI went out.\n", "utf-8")
    (found,) = vault.read().memories
    assert found == VaultMemory("I went out.", AT, None, {"tags": "", "- one": "two: three"})
    vault.add(found)
    assert vault.read().memories == (found, found)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_wf_30_any_text_comes_back(text: str):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        vault = Vault(folder, "x")
        vault.add(VaultMemory(text, AT, 1))
        (memory,) = vault.read().memories
        assert memory.content == text


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("Ann Lee", "Ann_Lee"),
        ("Ünal-7_b", "Ünal-7_b"),
        ("数据", "数据"),
        ("../x", "%2E%2E%2Fx"),
        ("a.b", "a%2Eb"),
    ],
)
def test_wf_30_names_of_any_script(name: str, folder: str):
    assert folder_name(name) == folder


def test_wf_30_names_that_would_collide_get_a_hash(tmp_path: Path):
    one, two = Vault(tmp_path, "a b"), Vault(tmp_path, "a_b")
    assert one.path != two.path
    assert Vault(tmp_path, "a_b").path == two.path
    assert Vault(tmp_path, "a b").path == one.path
    with pytest.raises(ConfigError):
        Vault(tmp_path, " ")


def test_what_cannot_be_read_is_named_and_the_rest_is_there(tmp_path: Path):
    vault = Vault(tmp_path, "Ann")
    vault.add(VaultMemory("fine", AT, 1))
    vault.save(recent())
    for name, text in {
        "a-memory.md": "no front matter",
        "b-memory.md": "---\ntype: memory\n",
        "c-memory.md": "---\ntype: other\n---\n\n# Memory\n\nx\n",
        "d-memory.md": "---\ntype: memory\ntimestamp: yesterday\n---\n\n# Memory\n\nx\n",
    }.items():
        (vault.path / "memories" / name).write_text(text, encoding="utf-8")
    (vault.path / "summaries" / "longterm.md").write_text(
        "---\ntype: memory_summary\nsummary_type: longterm\n---\n\nx\n", encoding="utf-8"
    )
    found = vault.read()
    assert [memory.content for memory in found.memories] == ["fine"]
    assert [path.name for path, _ in found.unreadable] == [
        "a-memory.md", "b-memory.md", "c-memory.md", "d-memory.md", "longterm.md",
    ]  # fmt: skip
    assert "no 'covers_start'" in found.unreadable[-1][1]


def test_an_empty_summary_leaves_with_the_unwanted_ones_as_an_empty_memory_does(tmp_path: Path):
    """A power cut may leave empty files, and an empty ``recent.md`` stayed until it was written again."""
    vault = Vault(tmp_path, "Ann")
    vault.save(longterm("kept"))
    (vault.path / "summaries" / "recent.md").write_bytes(b"")
    (vault.path / "summaries" / "notes.md").write_text("of somebody else")
    assert vault.remove_summaries(lambda summary: False) == 1
    assert sorted(path.name for path in (vault.path / "summaries").iterdir()) == ["longterm.md", "notes.md"]


def test_a_name_of_any_length_has_a_folder(tmp_path: Path) -> None:
    names = ["é" * 512, "é" * 511 + "a", "x" * 1_024, "a/" * 300]
    vaults = [Vault(tmp_path, name) for name in names]
    for name, vault in zip(names, vaults, strict=True):
        vault.add(VaultMemory(name, AT))
        assert len(vault.path.name.encode()) <= 255
    for name in names:
        found = Vault.existing(tmp_path, name)
        assert found is not None
        assert [memory.content for memory in found.read().memories] == [name]
    assert len({vault.path for vault in vaults}) == len(names)


def test_of_two_processes_that_make_one_folder_each_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one makes the folder between our look and our making it, and names it later."""
    make, others = Path.mkdir, list[Vault]()

    def overtaken(path: Path, *args: Any, **kwargs: Any) -> None:
        if path == tmp_path / "a_b":
            monkeypatch.undo()
            make(path, parents=True)  # of a third one, which was killed before it could write its name
            others.append(Vault(tmp_path, "a b"))
        make(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", overtaken)
    ours = Vault(tmp_path, "a_b")
    (other,) = others
    assert ours.path != other.path
    assert [each.path for each in (Vault(tmp_path, "a b"), Vault(tmp_path, "a_b"))] == [other.path, ours.path]


def test_what_a_killed_process_left_of_a_file_leaves_with_what_is_forgotten(tmp_path: Path) -> None:
    vault = Vault(tmp_path, "s")
    vault.add(VaultMemory("secret", AT))
    for folder in ("memories", "summaries"):
        (vault.path / folder).mkdir(exist_ok=True)
        left, fresh = vault.path / folder / ".writing-a.tmp", vault.path / folder / ".writing-b.tmp"
        left.write_text("secret")
        fresh.write_text("another process is about to name it")
        os.utime(left, (0, 0))
    vault.remove(lambda memory: memory.content == "secret")
    vault.remove_summaries(lambda _: True)
    assert not [path for path in vault.path.rglob("*") if path.is_file() and "secret" in path.read_text()]
    assert len(list(vault.path.rglob(".writing-*"))) == 2
