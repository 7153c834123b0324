"""Takes secrets out of everything that a session writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from siltstone.compaction.base import Compaction
from siltstone.events import RedactedSpan
from siltstone.memory.log import LogRow
from siltstone.messages import (
    Message,
    RawMessage,
    SummaryMessage,
    decode,
    encode,
    read_message,
    read_summary,
    unmarked,
)
from siltstone.redaction import Redactor, SecretFinding
from siltstone.session.view import Item
from siltstone.values import replace

__all__ = ["Redacting"]


class Redacting:
    """The rules of a session, for each thing that it writes. The caller's own objects are never changed.

    What the caller says may be refused by a rule. What follows from it (a summary, an entry, a fact) is
    never refused, only redacted: a compaction must not fail for a secret that is in the context already.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._refusing, self._redactor = redactor, redactor.unrefusing()

    def said(self, items: Sequence[Item]) -> tuple[list[Item], tuple[RedactedSpan, ...]]:
        """*items* on their way into the log, and where secrets stood in them.

        Raises:
            SecretRefusedError: a rule says that nothing of such a message may be written.
        """
        written, spans = list[Item](), list[RedactedSpan]()
        for item in items:
            raw, found = self._refusing.redact_message(item.message.raw)
            written.append(
                item if raw is item.message.raw else replace(item, message=_anew(item.message, raw))
            )
            spans += _spans(item.message.seq, found)
        return written, tuple(spans)

    def text(self, text: str) -> str:
        """*text* as it may be written."""
        return self._redactor.redact(text)[0]

    def raw(self, raw: RawMessage) -> RawMessage:
        """*raw* as the log has it."""
        written: RawMessage = self._redactor.redact_message(raw)[0]
        return written

    def rows(self, rows: Iterable[LogRow]) -> Iterable[LogRow]:
        """*rows* as they are written now: some may be of a time without these rules."""
        for row in rows:
            raw = decode(row.raw)
            clean = self.raw(raw)
            yield row if clean is raw else replace(row, raw=encode(clean))

    def message(self, message: Message) -> Message:
        """*message* as it may be indexed, or shown in the place of others."""
        if isinstance(message.raw, SummaryMessage):
            body = unmarked(message.text)
            clean = self.text(body)
            if clean is body:
                return message
            return read_summary(SummaryMessage(clean, message.covers, message.raw.level), message.covers)
        raw = self.raw(message.raw)
        return message if raw is message.raw else _anew(message, raw)

    def compaction(self, compaction: Compaction) -> Compaction:
        """*compaction* with summaries and substitutes that may be written; it shows them, too.

        So nothing of a secret that a model repeats is in what is committed, shown, told to a hook or handed
        back, nor in what the policy has kept for its next run. Policies cut what the caller appended, so what
        is left of a secret that stood where they cut is taken out as well.
        """
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
        """*item* as it may be indexed, and the places *own* among its parts.

        Reasoning that is left out moves the parts behind it.
        """
        message = self.message(item.message)
        if message is item.message:
            return item, own
        if own is None:
            return replace(item, message=message), None
        before, after = _spoken(item.message), _spoken(message)
        moved = dict(zip(before, after, strict=True)) if len(before) == len(after) else {}
        return replace(item, message=message), {moved.get(place, place) for place in own}

    def _secrets(self, message: Message) -> Iterator[str]:
        """The secrets in the texts of *message*."""
        for part in message.parts:
            for text in (part.text, part.arguments or ""):
                for found in self._redactor.redact(text)[1]:
                    yield text[found.start : found.end]

    def _values(self, value: Any) -> Any:
        """*value*, as JSON can hold it, with every text as it may be written."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self._values(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._values(each) for each in value]
        return value

    def _made(self, message: Message) -> Message:
        made = message.provenance in ("compaction_summary", "substitute")
        return self.message(message) if made else message


def _sources(compaction: Compaction) -> Iterator[Message]:
    """The messages that texts of *compaction* were made of."""
    yield from compaction.discarded
    yield from (substitute.original for substitute in compaction.substitutes)


def _anew(message: Message, raw: RawMessage) -> Message:
    return read_message(raw, message.seq, dialect=message.dialect, provenance=message.provenance)


def _spoken(message: Message) -> list[int]:
    return [place for place, part in enumerate(message.parts) if part.kind != "reasoning"]


def _spans(seq: int, found: Iterable[SecretFinding]) -> list[RedactedSpan]:
    return [RedactedSpan(seq, each.rule, each.path, each.start, each.end) for each in found]
