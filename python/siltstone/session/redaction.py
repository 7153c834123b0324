"""Removes secrets from every text that a session writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from siltstone import messages
from siltstone.compaction.base import Compaction
from siltstone.events import RedactedSpan
from siltstone.memory.log import LogRow
from siltstone.redaction import Redactor, SecretFinding
from siltstone.session.state import Item


class Redacting:
    """The redaction rules of a session, for each kind of text. The caller's own objects are never changed.

    A rule may refuse a message of the caller. Derived texts (summaries, entries, facts) are only redacted and
    never refused, since a compaction must not fail for a secret that is already in the context.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._refusing, self._redactor = redactor, redactor.unrefusing()

    def said(self, items: Sequence[Item]) -> tuple[list[Item], tuple[RedactedSpan, ...]]:
        """*items* without secrets, for the log, and the places of the secrets.

        Raises:
            SecretRefusedError: a rule forbids to write such a message at all.
        """
        written, spans = list[Item](), list[RedactedSpan]()
        for item in items:
            given = item.message.raw
            raw, found = self._refusing.redact_message(given)
            if isinstance(given, messages.HostedMessage) and (
                raw is not given or self.raw(host := given.host) is not host
            ):
                raw = dict(raw)  # the host's own form has a secret too, and is left out
            written.append(item if raw is given else replace(item, message=_anew(item.message, raw)))
            spans += _spans(item.message.seq, found)
        return written, tuple(spans)

    def text(self, text: str) -> str:
        """*text* without secrets."""
        return self._redactor.redact(text)[0]

    def raw(self, raw: messages.RawMessage) -> messages.RawMessage:
        """*raw* without secrets, as the log has it."""
        written: messages.RawMessage = self._redactor.redact_message(raw)[0]
        return written

    def rows(self, rows: Iterable[LogRow]) -> Iterable[LogRow]:
        """*rows* redacted by the current rules: rows may be older than these rules."""
        for row in rows:
            raw = messages.decode(row.raw)
            clean = self.raw(raw)
            yield row if clean is raw else row._replace(raw=messages.encode(clean))

    def message(self, message: messages.Message) -> messages.Message:
        """*message* without secrets, to be indexed, or shown as a summary or a substitute."""
        if isinstance(message.raw, messages.SummaryMessage):
            body = messages.unmarked(message.text)
            clean = self.text(body)
            if clean is body:
                return message
            return messages.read_summary(
                messages.SummaryMessage(clean, message.covers, message.raw.level, message.raw["role"]),
                message.covers,
            )
        raw = self.raw(message.raw)
        return message if raw is message.raw else _anew(message, raw)

    def compaction(self, compaction: Compaction) -> Compaction:
        """*compaction* with summaries, substitutes and state without secrets.

        So a secret that the model repeats is not committed, shown, told to a hook, returned, or kept in the
        policy's state. Policies cut the caller's original messages, and a cut may leave a part of a secret.
        Such parts are removed too.
        """
        if not (compaction.summary or compaction.asides or compaction.state) and not any(
            map(_is_made, compaction.messages)
        ):
            return compaction  # nothing was written
        cut = {secret for message in _sources(compaction) for secret in self._secrets(message)}
        return (
            Redacting(self._redactor.knowing(cut))._written(compaction) if cut else self._written(compaction)
        )

    def _written(self, compaction: Compaction) -> Compaction:
        made = [self._made(message) for message in compaction.messages]
        if all(one is other for one, other in zip(made, compaction.messages, strict=True)):
            made = list(compaction.messages)
        return replace(
            compaction,
            messages=made,
            summary=self.text(compaction.summary),
            asides=tuple(self.message(message) for message in compaction.asides),
            state=None if compaction.state is None else self._values(compaction.state),
        )

    def entry_of(self, item: Item, own: Collection[int] | None) -> tuple[Item, Collection[int] | None]:
        """*item* without secrets, to be indexed, and the new places of *own* among its parts.

        If reasoning parts are left out, the parts after them move.
        """
        message = self.message(item.message)
        if message is item.message:
            return item, own
        if own is None:
            return replace(item, message=message), None
        before, after = _spoken(item.message), _spoken(message)
        moved = dict(zip(before, after, strict=True)) if len(before) == len(after) else {}
        return replace(item, message=message), {moved.get(place, place) for place in own}

    def _secrets(self, message: messages.Message) -> Iterator[str]:
        """The secrets in the texts of *message*."""
        for part in message.parts:
            for text in (part.text, part.arguments or ""):
                for found in self._redactor.redact(text)[1]:
                    yield text[found.start : found.end]

    def _values(self, value: Any) -> Any:
        """*value*, a JSON value, with every text redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self._values(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._values(each) for each in value]
        return value

    def _made(self, message: messages.Message) -> messages.Message:
        return self.message(message) if _is_made(message) else message


def _is_made(message: messages.Message) -> bool:
    return message.provenance in ("compaction_summary", "substitute")


def _sources(compaction: Compaction) -> Iterator[messages.Message]:
    """The original messages behind the texts of *compaction*."""
    yield from compaction.discarded
    yield from (substitute.original for substitute in compaction.substitutes)


def _anew(message: messages.Message, raw: messages.RawMessage) -> messages.Message:
    return messages.read_message(raw, message.seq, dialect=message.dialect, provenance=message.provenance)


def _spoken(message: messages.Message) -> list[int]:
    return [place for place, part in enumerate(message.parts) if part.kind != "reasoning"]


def _spans(seq: int, found: Iterable[SecretFinding]) -> list[RedactedSpan]:
    return [RedactedSpan(seq, each.rule, each.path, each.start, each.end) for each in found]
