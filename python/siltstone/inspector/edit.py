"""The changes that pages make with ``--write``: undo, forget, pin, unpin, and facts that hold or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from siltstone.errors import ConfigError, StoreConflictError
from siltstone.figures import difference, require_session
from siltstone.inspector.knowledge import MOST
from siltstone.inspector.sessions import Subject
from siltstone.inspector.transcript import Shown, one_message, places
from siltstone.memory import ForgetReport
from siltstone.session import Session
from siltstone.session.compactions import CompactionRecord

Deed = Literal["undo", "forget", "pin", "unpin", "retract", "restore"]


class StaleError(Exception):
    """The session has changed since the preview was confirmed. The request changed nothing."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A change that a user asks for.

    Attributes:
        session_id: The session.
        deed: The kind of the change.
        start: The first message; for a pin, the message.
        end: The number after the last message.
        compaction: The compaction that an undo would take back; None before the preview.
        fact: The id of the fact that would be taken back, or would hold again.
    """

    session_id: str
    deed: Deed
    start: int = 0
    end: int = 0
    compaction: int | None = None
    fact: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """A change before it is made.

    Attributes:
        asked: The change, with the compaction that an undo takes back.
        record: The compaction that would be taken back; None for none.
        returns: How many messages would be in context again.
        report: The number of things that a forget would delete.
        messages: The first of the messages that it changes.
        fact: The text of the fact that it changes.
    """

    asked: Asked
    record: CompactionRecord | None = None
    returns: int = 0
    report: ForgetReport | None = None
    messages: tuple[Shown, ...] = ()
    fact: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """A change that was made."""

    asked: Asked
    record: CompactionRecord | None = None
    report: ForgetReport | None = None


_MOST = 5  #: messages of a preview


def asked_of(values: Mapping[str, str]) -> Asked:
    """The change that the fields of an address or a form ask for.

    Raises:
        ConfigError: it is nothing that the pages may do, or a field is no number.
    """
    deed = values.get("do", "")
    if deed not in get_args(Deed):
        raise ConfigError(f"the pages can {', '.join(get_args(Deed))}, and not {deed!r}", "do", deed)
    start = end = 0
    if deed == "forget":
        start, end = _number(values, "start"), _number(values, "end")
    elif deed in ("pin", "unpin"):
        start = _number(values, "seq")
        end = start + 1
    if deed == "forget" and end <= start:
        raise ConfigError(f"a range of messages ends after its first one: {start} to {end}", "end", end)
    compaction = _number(values, "id") if values.get("id") else None
    fact = values.get("fact", "")
    return Asked(values.get("session", ""), cast("Deed", deed), start, end, compaction, fact)


def preview(subject: Subject, asked: Asked) -> Preview:
    """The change before it is made. Nothing is changed.

    Raises:
        ConfigError: there is no such session, message or compaction.
    """
    session = subject.session(asked.session_id)
    if asked.deed == "undo":
        records = session.compactions()
        if not records:
            raise ConfigError("there is no compaction to take back", field="do", value="undo")
        record = records[-1]
        change = difference(session, subject.store, record.id)
        about = Asked(asked.session_id, "undo", compaction=record.id)
        return Preview(about, record, len(change.gone))
    if asked.deed in ("retract", "restore"):
        texts = [each.content for each in session.facts(None, MOST, history=True) if each.id == asked.fact]
        if not texts:
            raise ConfigError(f"session {asked.session_id!r} has no fact {asked.fact!r}", "fact", asked.fact)
        return Preview(asked, fact=texts[0])
    log = subject.store.open_log(asked.session_id)
    found = [one_message(log, seq) for seq in range(asked.start, min(asked.end, asked.start + _MOST))]
    messages = tuple(each[0] for each in found if each is not None)
    if not messages:
        raise ConfigError(f"session {asked.session_id!r} has no message {asked.start}", "seq", asked.start)
    report = None
    if asked.deed == "forget":
        report = subject.store.forget(
            session_id=asked.session_id, start=asked.start, end=asked.end, dry_run=True
        )
    elif asked.deed == "pin" and places(log).where(asked.start)[0] not in ("in context", "shortened"):
        raise ConfigError(
            f"message {asked.start} is not in context: only messages in context can be pinned",
            "seq",
            asked.start,
        )
    return Preview(asked, report=report, messages=messages)


def done(subject: Subject, asked: Asked, typed: str) -> Done:
    """Does it, in one transaction of the store.

    Args:
        subject: The store.
        asked: The confirmed change.
        typed: The name of the session as it was typed by hand.

    Raises:
        ConfigError: another name was typed, or there is no such session.
        StaleError: the compaction that was confirmed is not the last one any more.
    """
    if typed != asked.session_id:
        raise ConfigError(
            f"the name that was typed is not that of the session {asked.session_id!r}: nothing was changed",
            "name",
            typed,
        )
    with subject.open_store(False) as store:
        require_session(store, asked.session_id)
        if asked.deed == "forget":
            report = store.forget(session_id=asked.session_id, start=asked.start, end=asked.end)
            return Done(asked, report=report)
        with Session.open(None, asked.session_id, memory=store) as session:
            if asked.deed == "undo":
                return Done(asked, _undone(session, asked.compaction))
            if asked.fact:
                (session.retract if asked.deed == "retract" else session.restore)(asked.fact)
            elif asked.deed == "pin":
                session.pin(asked.start)
            else:
                session.unpin(asked.start)
    return Done(asked)


def _undone(session: Session, confirmed: int | None) -> CompactionRecord | None:
    if confirmed is None:
        raise StaleError("no compaction was confirmed: nothing was changed")
    try:
        return session.undo_compaction(compaction_id=confirmed)
    except StoreConflictError as error:
        raise StaleError(str(error)) from error


def _number(values: Mapping[str, str], name: str) -> int:
    given = values.get(name, "")
    if not (given.isascii() and given.isdigit()) or len(given) > 10:
        raise ConfigError(f"{name} must be a number from 0 on, got {given!r}", field=name, value=given)
    return int(given)
