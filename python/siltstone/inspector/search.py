"""The page of searches: what is found of a session, and the parts of each score."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, get_args

from siltstone import tokens
from siltstone.errors import refuse
from siltstone.figures import ScorePart, score_parts, shown
from siltstone.inspector.sessions import Subject
from siltstone.memory import Ranker, SearchHit
from siltstone.memory.database_log import MOST_RECALLS
from siltstone.memory.hits import CUT, Passage
from siltstone.messages import well_formed
from siltstone.session import Session

#: The rankers that need no embedder.
RANKERS = tuple(ranker for ranker in get_args(Ranker) if ranker not in ("dense", "fused"))
_SHORT = 640  #: characters of a hit before it is unfolded
MOST_HITS = 50
RECALLS = 20  #: recalls of a page
RULE = "blocks"  #: how a block is counted


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit.

    Attributes:
        hit: The hit of the search.
        part: The part of its text that fits the query best, with the places of the query's words.
        whole: All of its text, with the same.
        parts: The parts of its score, without the sum.
    """

    hit: SearchHit
    part: Passage
    whole: Passage
    parts: tuple[ScorePart, ...]

    @property
    def is_cut(self) -> bool:
        """Its text is longer than the part."""
        return len(self.part.text) < len(self.hit.content)

    @property
    def before(self) -> str:
        """The mark of a cut before the part; empty where there is none."""
        return f"{CUT} " if self.part.start else ""

    @property
    def after(self) -> str:
        """The same behind it."""
        return f" {CUT}" if self.part.end < len(self.hit.content) else ""


def recall_log(subject: Subject, session_id: str, start: int = 0, step: int = RECALLS) -> SimpleNamespace:
    """A page of the recalls of a session.

    It has:
        shown: The recalls of the page, the newest first.
        start: The place of the first of them, from the newest.
        step: How many a page has.
        all: How many there are.
        most: How many a log keeps.
    """
    session = subject.session(session_id)
    records = session.recalls(MOST_RECALLS)
    page = shown(session, subject.store, records[start : start + step])
    return SimpleNamespace(shown=page, start=start, step=step, all=len(records), most=MOST_RECALLS)


def find(
    subject: Subject, session_id: str, query: str, ranker: str = "lexical", limit: int = 5, scope: str = ""
) -> SimpleNamespace:
    """The answer to *query* from the memory of a session, or of its namespace if *scope* is ``namespace``.

    It has:
        query, ranker, limit, scope: As they were given, within their bounds.
        hits: The hits, the best first.
        recalled: The block that recall with its defaults would place before the model for this query now;
            empty for none.
        recalled_tokens: The tokens of this block.

    Raises:
        ConfigError: a ranker that a store cannot run without an embedder, or that there is not.
    """
    if ranker not in RANKERS:
        refuse("ranker", f"one of {', '.join(RANKERS)}", ranker)
    scope = "namespace" if scope == "namespace" else "session"
    limit = max(1, min(limit, MOST_HITS))
    asked = well_formed(query)
    hits, block = list[SearchHit](), ""
    if asked.strip():
        how: dict[str, Any] = {"ranker": ranker, "explain": True, "scope": scope}
        hits = subject.session(session_id).search(asked, limit, **how)
        with Session.open(None, session_id, memory=subject.store, preset=None, recall=True) as session:
            block = session.recall(asked)
    return SimpleNamespace(
        query=query,
        ranker=ranker,
        limit=limit,
        scope=scope,
        hits=[_shown(hit) for hit in hits],
        recalled=block,
        recalled_tokens=tokens.rule(RULE).count_text(block),
    )


def _shown(hit: SearchHit) -> ShownHit:
    parts = tuple(part for part in score_parts(hit.explain or {}) if part.name != "score")
    whole = hit.best_passage(max(1, len(hit.content)))
    return ShownHit(hit, hit.best_passage(_SHORT), whole, parts)
