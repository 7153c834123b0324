"""Branches, compactions, undos and reopenings at random, held against a plain list."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from branching import copied, line, opened, ranges
from conversations import Raw, assistant, user
from siltstone import MemoryStore, Session, SimpleMemoryStore
from siltstone.engine import Compacted
from siltstone.memory import Store
from siltstone.messages import encode


@dataclass(frozen=True)
class Plain:
    """What a session should be: its line, its view, what can be found, and the steps that led there."""

    line: tuple[str, ...] = ()
    view: tuple[str, ...] = ()
    found: frozenset[str] = frozenset()
    steps: tuple[tuple[str, Plain, tuple[str, ...]], ...] = ()

    def said(self, new: tuple[str, ...]) -> Plain:
        """After *new* was appended; every compaction knows what came after it."""
        steps = tuple((kind, before, since + new) for kind, before, since in self.steps)
        return replace(self, line=self.line + new, view=self.view + new, steps=steps)

    def did(self, kind: str, line: tuple[str, ...], view: tuple[str, ...]) -> Plain:
        """After a step that left *line* and *view*."""
        return Plain(line, view, frozenset(line) - frozenset(view), (*self.steps, (kind, self, ())))

    def undone(self) -> Plain:
        """After the last step was taken back."""
        kind, before, since = self.steps[-1]
        return before if kind == "branch" else before.said(since)


def seen(session: Session) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    log = [encode(raw) for raw in session.log()]
    found = frozenset(log[seq] for seq in ranges(session))
    return tuple(encode(raw) for raw in line(session)), tuple(encode(raw) for raw in session.history()), found


def edited(host: list[Raw], at: int, kind: str, new: Callable[[bool], Raw]) -> list[Raw]:
    """*host* with its past rewritten at *at*. What is new is unlike anything else."""
    if kind == "change":
        return [*host[:at], new(at == 0), *host[at + 1 :]]
    if kind == "insert":
        return [*host[:at], new(at == 0), *host[at:]]
    if kind == "resend":
        return [*host[:at], new(at == 0)]
    return host[: max(at, 1)]


def live(store: Store, pick: Callable[[int], int], steps: int) -> None:
    """A host and a session do *steps* things; after each of them the session is what the model says."""
    session, host, plain, number, longest = opened(store, unrelated="branch"), [], Plain(), 0, 0

    def new(is_first: bool) -> Raw:  # what is before the first request is a greeting, and is not compared
        nonlocal number
        number += 1
        speaker = user if is_first or pick(2) else assistant
        return speaker(f"message {number} " + "gravel " * (10 * pick(4)))

    for _ in range(steps):
        does = ("extend", "extend", "edit", "edit", "compact", "undo", "reopen")[pick(7)]
        if does == "extend" or not host:
            added = [new(not host and not place) for place in range(1 + pick(4))]
            host = [*host, *added]
            assert session.observe(copied(host)) == len(added)
            plain = plain.said(tuple(encode(raw) for raw in added))
        elif does == "edit":
            kind = ("change", "insert", "resend", "back")[pick(4)]
            before, host = host, edited(host, pick(len(host)), kind, new)
            session.observe(copied(host))
            if host != before:
                plain = plain.did("branch", tuple(encode(raw) for raw in host), seen(session)[1])
        elif does == "compact":
            if isinstance(session.compact(), Compacted):
                plain = plain.did("compaction", plain.line, seen(session)[1])
        elif does == "undo":
            assert (session.undo_compaction() is not None) == bool(plain.steps)
            plain = plain.undone() if plain.steps else plain
            host = [json.loads(raw) for raw in plain.line]
        else:
            session = opened(store, unrelated="branch")
        summaries = {raw for raw in plain.view if raw not in plain.line}
        assert len(summaries) <= 1
        assert seen(session) == (plain.line, plain.view, plain.found)
        assert len(session.compactions()) == len(plain.steps)
        if not any(kind == "compaction" for kind, _, _ in plain.steps):
            assert session.history() == host
        assert len(session.log()) >= longest, "nothing is ever lost from the log"
        longest = len(session.log())
        assert session.observe(copied(host)) == 0


@given(data=st.data())
def test_the_view_is_the_host_s_list_whatever_it_does_to_its_past(data: st.DataObject) -> None:
    """Together with compactions and undos: what the host has is the line, and what left the view is found."""
    with SimpleMemoryStore() as store:
        live(store, lambda count: data.draw(st.integers(0, count - 1)), data.draw(st.integers(1, 15)))


@pytest.mark.parametrize("seed", range(6))
def test_the_same_over_a_database_and_its_files_are_whole(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(4):
        with MemoryStore.open(tmp_path / str(number)) as store:
            live(store, chance.randrange, 25)
            assert store.check() == []
