"""Runs recall: one query, one block for each turn, unchanged through the steps of its tool loop."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from math import ceil
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from siltstone._native import (
    BlockWriter as BlockWriter,
    RecallContext as RecallContext,
    Recalled as Recalled,
    words,
)
from siltstone.messages import Message, groups, opens_turn
from siltstone.messages.groups import call_key
from siltstone.messages.message import RULE_ROLES
from siltstone.messages.own_messages import (
    TAGS,
    frame,
    is_recalled as is_recalled,
    may_be_recalled as may_be_recalled,
    parse_block as parse_block,
    standing_frame,
)
from siltstone.messages.text import without_control, without_prefixes
from siltstone.recall.base import (
    BlockOptions as BlockOptions,
    Detail,
    FactLine,
    RecallBlock,
    RecallConditions as RecallConditions,
    RecallConfig,
)
from siltstone.tokens import TextMeasure

# Makes the query of a recall from the newest requests.

LEAST: Final = 3  #: characters of the shortest query that is searched for
WORDS: Final = 60  #: words of the longest message that is searched as a whole, if it has sentences
_MESSAGES: Final = 3  #: user messages that a query is made of, at most
_SAYS_LITTLE: Final = 6  #: words of the longest message that is searched with the two before it
_END: Final = 8_000  #: characters at either end of a message that are taken apart: a pasted text is between
_LONGEST: Final = 300  #: characters of a sentence that is searched for alone: its end, where the question is
_QUESTIONS: Final = 3  #: questions of a message that are searched for, at most
_ASKS: Final = ("?", "？", "؟", "՞", "吗", "呢", "嗎", "か", "か。", '?"', "?)", "?»", "?”", "？」")
#: What a question begins with, where its mark is missing, and up to eleven words after it.
_ASKED: Final = re.compile(
    r"\b(?:what|which|who|whose|where|when|why|how|welche\w?|wer|wem|wo|wohin|wann|warum|wie|qu[eé]|cu[aá]l|cu[aá]les"
    r"|qui[eé]n|d[oó]nde|cu[aá]ndo|cu[aá]nt[oa]s?|c[oó]mo)\b(?:\W+\w+){2,11}",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(
    r"(?<=[.!?؟։])(?<!\b\d\.)(?<!\b\d\d\.)[\"')»”]?\s+|(?<=[。！？])|(?<=[\u3400-\u9fff][?!])|\n+"
)
_MONTH: Final = r"(?:jan|feb|mar|mär|apr|abr|ma[iy]|jun|jul|aug|ago|sep|o[ck]t|nov|de[cz]|dic|ene)[a-zä]*\.?"
#: A day or a time of day: in figures, in English, German, Spanish and Chinese.
_DATE: Final = re.compile(
    r"\b(?:on |at |in |since |by |am |im |seit |el |en |desde )?"
    r"(?:\d{4}-\d\d?-\d\d?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH}(?:,?(?: de)? \d{{4}})?"
    rf"|{_MONTH} \d{{1,4}}(?:st|nd|rd|th)?(?:,? \d{{4}})?"
    r"|(?:(?:last|this|next) )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|today|tomorrow"
    r"|gestern|heute|ayer|hoy|(?:last|this|next) (?:week|month|year))\b|\d{2,4}年|\d{1,2}月|\d{1,2}日",
    re.IGNORECASE,
)
_LETTERS: Final = re.compile(r"[^\W\d_]{2}|[\u3040-\u9fff\uac00-\ud7af]|\d")


class Query(NamedTuple):
    """A query: its text, and the sequence numbers of the messages that it is made of."""

    text: str
    seqs: tuple[int, ...]


def last_query(history: Sequence[Message]) -> Query:
    """The last user messages, at most three, oldest first, joined by a space.

    Lines that a host has written at the beginning of a message are skipped; such lines further down are the
    user's, as in a pasted log.
    """
    return _joined([*islice(_spoken(history), _MESSAGES)])


def queries_of(history: Sequence[Message]) -> Iterator[tuple[Query, ...]]:
    """The queries to try until one finds something; queries in one tuple are searched together.

    First the questions of the newest message, each alone: a score is a share of the highest possible score
    of its query, so every other word would lower it. Then the questions without dates, which few messages
    repeat; each question with the sentence before it, which may name what it is about; the whole message, if
    it has at most ``WORDS`` words; its last two sentences and its first; what a word of a question begins, if
    no question has a mark; then the newest three messages together, if it says too little ("and the second
    one?"): else they would find what was asked before.
    """
    spoken = _spoken(history)
    newest = next(spoken, None)
    if newest is None:
        return
    text, seq = newest
    for together in _parts(text):
        yield tuple(Query(part, (seq,)) for part in together)
    few = islice(spoken, _MESSAGES - 1) if len(words(text[-_END:])) <= _SAYS_LITTLE else ()
    if before := [(said, at) for long, at in few if (said := _asked(long))]:
        yield (_joined([newest, *before]),)


def _asked(text: str) -> str:
    """*text*, or only its questions if it has more than ``WORDS`` words: they would hide this one."""
    if len(words(text[-_END:])) <= WORDS:
        return text
    return " ".join(each for each in _sentences(text) if each.endswith(_ASKS))


def _parts(text: str) -> Iterator[tuple[str, ...]]:
    """The texts of :func:`queries_of` that one message gives, each once."""
    sentences = _sentences(text)
    asking = [place for place, each in enumerate(sentences) if each.endswith(_ASKS)]
    if len(asking) > _QUESTIONS:  # those in the middle are probably of a pasted text
        asking = [asking[0], *asking[1 - _QUESTIONS :]]
    tries = [
        tuple(sentences[place] for place in asking),
        tuple(_DATE.sub(" ", sentences[place]) for place in asking),
        tuple(f"{sentences[place - 1]} {sentences[place]}" for place in asking if place),
        (text,) if len(sentences) < 2 or len(text.split()) <= WORDS else (),
        *((each,) for each in (*sentences[:-3:-1], *sentences[:1])),
        () if asking else tuple(part for each in sentences for part in _ASKED.findall(each))[-_QUESTIONS:],
    ]
    known: set[str] = set()
    for together in tries:
        new = tuple(part for part in dict.fromkeys(together) if part not in known)
        known.update(new)
        if new:
            yield new


def _sentences(text: str) -> list[str]:
    """The sentences of both ends of *text*, each cut to its end."""
    if len(text) > 2 * _END:
        text = f"{text[:_END]}\n{text[-_END:]}"
    return [each.strip()[-_LONGEST:] for each in _SENTENCE.split(text) if _LETTERS.search(each)]


def _joined(spoken: Sequence[tuple[str, int]]) -> Query:
    """The query of messages, which are given newest first."""
    return Query(" ".join(text for text, _ in reversed(spoken)), tuple(seq for _, seq in reversed(spoken)))


def _spoken(history: Sequence[Message]) -> Iterator[tuple[str, int]]:
    """The words of the user's messages with their sequence numbers, the newest first."""
    for message in reversed(history):
        if opens_turn(message) and not is_recalled(message):
            text = without_prefixes(message.text).strip()
            if text:
                yield text, message.seq


# Writes a block of recalled text, within a budget, so that no text in it can pose as another part.

_KNOWLEDGE_PERCENT: Final = 30  #: of the cap; details have the rest

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_AHEAD: Final = 64  #: characters behind a bracket in which a tag's name may be hidden
_LINES: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_HEADER: Final = re.compile(r"(?m)^(?=\s*\[\d{4}-\d\d-\d\d \d\d:\d\d [^\]\n]*\])")
#: The characters that can be dangerous: nearly all texts have none of them.
_SPECIAL: Final = "<＜﹤‹⟨〈〈˂ᐸ❮❰[]\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_ANY_SPECIAL: Final = re.compile(f"[{re.escape(_SPECIAL)}]")
_WORD: Final = re.compile(r"[^\w-]+")
#: Letters of other scripts that look like letters of our tags.
_LOOK_ALIKES: Final = str.maketrans("аеорсԁіӏıοκωγ‐‑‒–—−", "aeopcdilioxwy------")
#: The invisible characters of ASCII: blanks and controls.
_UNSEEN: Final = dict.fromkeys([*range(0x21), 0x7F])
_BRACKETS: Final = re.compile("[<＜﹤‹⟨〈〈˂ᐸ❮❰]")


def build_block(
    facts: Sequence[FactLine],
    details: Sequence[Detail],
    cap: int,
    count: Callable[[str], int],
    *,
    framed: bool = False,
    cut: bool = False,
) -> RecallBlock:
    """The block of *facts* and *details*, with at most *cap* tokens by *count*.

    Facts may take 30 % of the cap, details the rest. Each part is filled by score until an item does not fit,
    and has at least one item. If the whole is over the cap, the details with the lowest scores are dropped,
    then all facts, then everything. Details are written oldest first.

    Args:
        facts: The facts. Of equal scores the earlier one comes first.
        details: The details.
        cap: The most tokens.
        count: Counts the tokens of a text.
        framed: Whether a sentence before the block explains it, within the cap.
        cut: Whether a detail that is larger than the details' budget is cut to it, and marked.
    """
    options = block_options(cap, count, framed=framed, cut=cut)
    return written(facts, details, "", options)


def standing_block(
    wishes: Sequence[FactLine], cap: int, count: Callable[[str], int], measure: TextMeasure | None = None
) -> str:
    """The block of standing *wishes*, in their order, with at most *cap* tokens by *count*.

    Where they do not all fit, those with the lowest scores leave. Empty if none fits.
    """
    options = BlockOptions(cap, cap, count, measure, None, True, False)
    ranked = sorted(range(len(wishes)), key=lambda place: -wishes[place].score)
    written_lines = {place: _fact(wishes[place]) for place in ranked}
    left, chosen = cap, list[int]()
    for place in ranked:
        left -= count(written_lines[place])
        if left < 0:
            break
        chosen.append(place)
    while chosen:
        text, _, known, _, _ = _STANDING.write("", [written_lines[at] for at in sorted(chosen)], [], options)
        if known == len(chosen):
            return text
        chosen.pop()
    return ""


def block_options(
    cap: int,
    count: Callable[[str], int],
    *,
    framed: bool,
    cut: bool,
    measure: TextMeasure | None = None,
    excerpt: Callable[[str, str, int], str] | None = None,
) -> BlockOptions:
    """The options of a block, for the core.

    Args:
        cap: The most tokens.
        count: Counts the tokens of a text.
        framed: Whether a sentence before the block explains it.
        cut: Whether a detail that is too large is cut.
        measure: The rule that *count* implements, if the core knows it.
        excerpt: Called with query, text and a number of tokens; returns the best part of the text. With it
            no detail takes more than half of the tokens that are left.
    """
    return BlockOptions(cap, cap * _KNOWLEDGE_PERCENT // 100, count, measure, excerpt, framed, cut)


def written(
    facts: Sequence[FactLine], details: Sequence[Detail], query: str, options: BlockOptions, below: int = 0
) -> RecallBlock:
    """The block of *facts* and *details*; too large details are cut to the part that fits *query*.

    *below* is the number of details that scored too little.
    """
    rows = [_row(each) for each in details]
    text, tokens, known, said, considered = WRITER.write(query, lines(facts), rows, options)
    return block_of(text, tokens, known, said, considered, below, is_any=bool(facts or details))


def block_of(
    text: str, tokens: int, known: int, said: int, considered: str, below: int, *, is_any: bool
) -> RecallBlock:
    """A written block; *is_any* says whether there were facts or details."""
    if text:
        return RecallBlock(text, tokens, known, said, considered=considered, below=below)
    return RecallBlock(reason="no_room" if is_any else "no_hits", considered=considered, below=below)


def lines(facts: Sequence[FactLine]) -> list[str]:
    """*facts* as lines of a block, the best first."""
    return [_fact(fact) for fact in sorted(facts, key=lambda fact: -fact.score)]


def safe(content: str) -> str:
    """*content*, escaped so that it can neither close the block nor pose as a part of it.

    A bracket before the name of one of our tags becomes ``&lt;``, however the name is disguised, as does that
    of a control token; a line that looks like the beginning of a detail gets a backslash. All else stays.
    """
    if _ANY_SPECIAL.search(content) is None:
        return content

    def bracket(found: re.Match[str]) -> str:
        return "&lt;" if _names_a_tag(content[found.end() : found.end() + _AHEAD]) else found[0]

    escaped = without_control(_BRACKETS.sub(bracket, content))
    escaped = "\n".join(f"{escaped}.".splitlines())[:-1]  # every line end that some reader recognizes
    return _HEADER.sub(lambda _: "\\", escaped) if "[" in escaped else escaped


def _names_a_tag(behind: str) -> bool:
    """Whether *behind* begins with the name of a tag, after invisible characters are removed."""
    if behind.isascii():
        return behind.lower().translate(_UNSEEN).lstrip("/\\").startswith(TAGS)
    folded = unicodedata.normalize("NFKC", behind).casefold().translate(_LOOK_ALIKES)
    seen = "".join(
        char for char in unicodedata.normalize("NFD", folded)
        if not char.isspace() and unicodedata.category(char) not in {"Cf", "Cc", "Mn", "Me", "Cn", "Co"}
    )  # fmt: skip
    return seen.lstrip("/⁄∕\\").startswith(TAGS)


def _fact(fact: FactLine) -> str:
    return f"- [{_word(fact.type)}] {_LINES.sub(' ', safe(fact.content)).strip()}"


@lru_cache(maxsize=64)
def _word(text: str) -> str:
    return _WORD.sub("_", text).strip("_") or "unknown"


def _row(detail: Detail) -> tuple[str, float, str, int, int]:
    """*detail* with its time in milliseconds since 1970."""
    content, score, role, moment, entry_id = detail
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        moment = (aware - _EPOCH) // _MILLISECOND
    return content, score, role, moment, entry_id


WRITER: Final = BlockWriter(_SPECIAL, safe, _word, frame)
_STANDING: Final = BlockWriter(_SPECIAL, safe, _word, standing_frame)


# Finds the place of the block in a history, and the blocks of earlier calls.


def position(history: Sequence[Message], placement: Literal["head", "tail"] = "tail") -> int:
    """The position in *history* before which the block is inserted, never inside of a group.

    ``tail`` is directly before the last user message, or before the group of this message; ``head`` is behind
    the system messages and the summary at the beginning. A history without a user message always uses the
    head.
    """
    if placement == "tail":
        for place in range(len(history) - 1, -1, -1):
            if opens_turn(history[place]) or _words_beside_results(history[place]):
                return _before_groups(history, place)
    place = 0
    while place < len(history) and _leads(history[place]):
        place += 1
    return _before_groups(history, place)


def _is_within(history: Sequence[Message], place: int) -> bool:
    """Whether a group may span *place*.

    It may if a message from *place* on answers a call before it, or continues an answer before it. Only the
    messages from *place* on are read, which are one turn if *place* is its request.
    """
    calls: set[Hashable] = set()
    for message in history[place:]:
        for part in message.parts:
            if part.kind == "tool_call":
                calls.add(call_key(part))
            elif part.kind == "tool_result":
                if call_key(part) not in calls:
                    return True
            elif part.kind == "other":
                return True
    return 0 < place < len(history) and history[place].role == "assistant"


def _leads(message: Message) -> bool:
    return message.role in RULE_ROLES or message.provenance == "compaction_summary"


def _words_beside_results(message: Message) -> bool:
    """Whether a user message has tool results, and the user's own words beside them."""
    if message.role != "user" or message.provenance != "original":
        return False
    kinds = {part.kind for part in message.parts if part.kind != "text" or part.text.strip()}
    return "tool_result" in kinds and "text" in kinds


def _before_groups(history: Sequence[Message], place: int) -> int:
    if not _is_within(history, place):
        return place
    spans = [(group.positions[0], group.positions[-1]) for group in groups(history)]
    moved = True
    while moved:
        moved = False
        for first, last in spans:
            if first < place <= last:
                place, moved = first, True
    return place


FACT_LIMIT = 10  #: facts that are looked for
_TOKENS_PER_HIT: Final = 60  #: of short messages: so many hits are looked for that they fill the block
_MOST_HITS: Final = 40  #: more of them find 0.003 of the evidence in a window of 16,000
_DOCUMENTED_PER_HIT: Final = 500
_WITH_NEIGHBOURS: Final = 1  #: the best hits whose neighbours come with them: more find no more
WITH_THE_BEST: Final = 0.5  #: the share of the least score that the other hits need
NEIGHBOUR: Final = 0.15  #: the share of a hit's score that each step away from it costs

Excerpt: TypeAlias = Callable[[str, str, int], str]
"""Returns the part of a text that best matches a query: takes the query, the text and the most tokens."""


class Sources(Protocol):
    """The sources of a session's recall, bound to the session or to its namespace."""

    def details(self, query: str, limit: int) -> Sequence[Detail]:
        """The stored messages that fit *query* and are not in context, best first.

        With ``score_filter="documented"``, only those that pass the documented filter.
        """

    def neighbours(self, detail: Detail, distance: int) -> Sequence[tuple[int, Detail]]:
        """The entries up to *distance* before and after *detail*, each with its distance."""

    def facts(self, query: str, limit: int) -> Sequence[FactLine]:
        """The facts that fit *query*, best first."""

    def least(self) -> float:
        """The least score of the best detail."""


@runtime_checkable
class BlockSources(Protocol):
    """Sources that search and write the block in one step, by the measured rule."""

    def block(
        self, queries: Sequence[str], limit: int, facts: Sequence[FactLine], options: BlockOptions
    ) -> RecallBlock | None:
        """The block of *facts*, of the relevant ones among *limit* hits of each query, and of neighbours.

        None if the sources have to be asked one by one.
        """


@dataclass(frozen=True, slots=True)
class _Worked:
    """The block of one turn."""

    turn: Hashable
    block: RecallBlock
    room: int  # for which it was made
    left_out: RecallBlock = field(default_factory=lambda: RecallBlock(reason="no_room"))


class Recall:
    """The recall of one session. Not safe for several threads at once: a session calls it under its lock.

    Args:
        config: The settings.
        sources: The sources to search.
        count: Counts the tokens of a text, by the session's own counter.
        excerpt: Cuts a detail that is larger than its share, if ``config.cut`` is set. Without it the
            beginning is kept.
        measure: The rule that *count* implements, if the core knows it.
    """

    def __init__(
        self,
        config: RecallConfig,
        sources: Sources,
        count: Callable[[str], int],
        excerpt: Excerpt | None = None,
        measure: TextMeasure | None = None,
    ) -> None:
        self.config = config
        self._sources = sources
        self._count = count
        self._excerpt, self._measure = excerpt, measure
        self._worked: _Worked | None = None
        self._writes = sources if isinstance(sources, BlockSources) else None

    def block(
        self,
        history: Sequence[Message],
        *,
        context_window: int | None = None,
        room: int | None = None,
        query: str | None = None,
        version: Hashable = None,
    ) -> RecallBlock:
        """The block for the next call: made once for each turn, and returned unchanged until the next turn.

        During a turn it is the same object.

        Args:
            history: The view, without blocks of earlier calls.
            context_window: The window in tokens, if known.
            room: The tokens that are left in the request, which bound the block: see ``RecallConfig.share``.
                A block that does not fit any more is made anew, smaller. If that is not possible, and by
                the documented rule, it is left out of this call, and returns in one with enough room.
            query: The query; None takes the last user messages.
            version: The version of the stored data. With another version the block is made anew.
        """
        turn = _turn(history, query, version)
        worked = self._worked
        had_no_room = worked is not None and worked.block.reason == "no_room" and worked.room < (room or 0)
        if worked is None or worked.turn != turn or had_no_room:
            block = self.search(history, context_window=context_window, query=query, room=room)
            worked = self._worked = _Worked(turn, block, room or 0)
        if room is None or worked.block.tokens <= room:
            return worked.block
        if self.config.score_filter != "documented":
            smaller = self.search(history, context_window=context_window, query=query, room=room)
            if smaller.text and smaller.tokens <= room:
                self._worked = _Worked(turn, smaller, room)
                return smaller
        return worked.left_out

    def leave_out(self, history: Sequence[Message], version: Hashable = None) -> None:
        """Continues the turn of *history* without a block: the provider found the request too large."""
        self._worked = _Worked(_turn(history, None, version), RecallBlock(reason="no_room"), sys.maxsize)

    def forget(self) -> None:
        """Makes the next call build its block anew, since the stored data has changed."""
        self._worked = None

    def search(
        self,
        history: Sequence[Message],
        *,
        context_window: int | None = None,
        query: str | None = None,
        room: int | None = None,
    ) -> RecallBlock:
        """A new block for *query*, or for the last user messages. Safe to call from any thread."""
        cap = self.config.cap(context_window, room)
        if not self.config.enabled or self.config.cap(context_window) == 0:
            return RecallBlock(reason="off")
        if cap == 0:
            return RecallBlock(reason="no_room")
        limit = max(8, min(_MOST_HITS, ceil(cap / _TOKENS_PER_HIT)))
        if self.config.score_filter == "documented":
            limit = max(8, ceil(cap / _DOCUMENTED_PER_HIT))
        block = RecallBlock(reason="short_query")
        seqs: tuple[int, ...] = ()
        for together in self._queries(history, query):
            texts = [each.text for each in together if len(each.text.strip()) >= LEAST]
            seqs = together[0].seqs
            if texts:
                block = self._block(texts, limit, cap)
                if block.reason != "no_hits":
                    break
        return replace(block, query=seqs)

    def _block(self, queries: Sequence[str], limit: int, cap: int) -> RecallBlock:
        sources, cut = self._sources, self._excerpt if self.config.cut else None
        facts = [*{fact.content: fact for one in queries for fact in sources.facts(one, FACT_LIMIT)}.values()]
        if self._writes is not None:
            block = self._writes.block(queries, limit, facts, self._options(cap, cut))
            if block is not None:
                return block
        details: dict[int, Detail] = {}
        found_by: dict[str, str] = {}  # by the text of a detail: the shortest query, which says most of it
        below = 0
        for query in queries:
            hits = sources.details(query, limit)
            relevant = self._relevant(hits)
            below += len(hits) - len(relevant)
            for each in self._with_neighbours(relevant):
                key = each.entry_id or -1 - len(details)  # 0: no id of its own
                if key not in details or details[key].score < each.score:
                    details[key] = each
                found_by[each.content] = min(query, found_by.get(each.content, query), key=len)

        def excerpt(_: str, text: str, tokens: int) -> str:
            return cut(found_by[text], text, tokens) if cut is not None else text

        options = self._options(cap, None if cut is None else excerpt)
        return written(facts, [*details.values()], "", options, below)

    def _options(self, cap: int, excerpt: Excerpt | None) -> BlockOptions:
        framed, cut, measure = self.config.recall_frame, self.config.cut, self._measure
        return block_options(cap, self._count, framed=framed, cut=cut, measure=measure, excerpt=excerpt)

    def _queries(self, history: Sequence[Message], query: str | None) -> Iterable[tuple[Query, ...]]:
        if self.config.score_filter == "documented":
            return [(last_query(history) if query is None else Query(query, ()),)]
        if query is None:
            return queries_of(history)
        return (tuple(Query(part, ()) for part in together) for together in _parts(query))

    def _relevant(self, hits: Sequence[Detail]) -> list[Detail]:
        """The hits that may be placed.

        By the measured rule, the best hit decides whether any is placed, and the others need a share of the
        same score: a detail of an answer says less of the question than the sentence that names it. By the
        documented rule, the search has decided already, as it knows which ranker found each hit.
        """
        if self.config.score_filter == "documented":
            return list(hits)
        least = self._sources.least()
        if any(hit.score >= least for hit in hits):
            least *= WITH_THE_BEST
        return [hit for hit in hits if hit.score >= least]

    def _with_neighbours(self, hits: Sequence[Detail]) -> list[Detail]:
        if not self.config.expand_neighbors:
            return list(hits)
        if not hits:
            return []
        best = {hit.entry_id or -place: hit for place, hit in enumerate(hits, 1)}  # 0: no id of its own
        for hit in hits[:_WITH_NEIGHBOURS]:
            for distance, near in self._sources.neighbours(hit, self.config.expand_neighbors):
                score = hit.score * max(0.0, 1 - NEIGHBOUR * distance)
                known = best.get(near.entry_id)
                if known is None or known.score < score:
                    best[near.entry_id] = near._replace(score=score)
        return list(best.values())


def _turn(history: Sequence[Message], query: str | None, version: Hashable) -> Hashable:
    """The key of a turn: its request, the caller's own query, and the version of the data."""
    for message in reversed(history):
        if opens_turn(message):
            return message.seq, message.text, query, version
    return -1, "", query, version
