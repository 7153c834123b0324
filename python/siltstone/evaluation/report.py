"""Reports of measurements: figures by category and pooled, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from siltstone.outcome import html_table

__all__ = ["CUTOFFS", "DEPTH", "SESSION_CUTOFFS", "Abstention", "Figures", "Latency", "Report"]

CUTOFFS = (1, 5, 10, 20)  #: the ks of Recall@k, Hit@k and of the tokens handed over
SESSION_CUTOFFS = (1, 5)  #: the ks of Hit@k over sessions
DEPTH = 100  #: hits that a ranking is read to; a first evidence beyond has a reciprocal rank of 0


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over questions, each 0..1 except the tokens.

    Attributes:
        questions: The number of questions.
        recall: Recall@k, by k: the share of a question's evidence in the top k.
        margin: Half the width of the 95 % confidence interval of Recall@k, by k: how far the same ranker may
            be off on other questions of this kind. Two rankers may differ significantly even if their
            intervals overlap, since they answered the same questions.
        hit: Hit@k, by k: whether any evidence is in the top k.
        ndcg: nDCG@10 with a gain of 1.
        mrr: 1 / rank of the first evidence; 0 beyond rank 100.
        tokens: The tokens of the top k, by k: characters / 4.
        session_hit: Hit@k over sessions, by k: each hit counts for its session, each session once. None if
            the turns have no sessions.
    """

    questions: int
    recall: Mapping[int, float]
    margin: Mapping[int, float]
    hit: Mapping[int, float]
    ndcg: float
    mrr: float
    tokens: Mapping[int, float]
    session_hit: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Abstention:
    """The quality of the best hit's score as a test whether a question has an answer.

    Attributes:
        auc: How often a conversation's own question scores higher than a question of another conversation
            without names, 0..1; 0.5 is guessing. A question without hits is below every question with hits.
        auc_nameless: The same with names removed from the own questions too, so that names give neither side
            away.
        off_topic: The number of questions of other conversations.
        silent: The share of own questions without hits, 0..1.
        silent_off_topic: The share of the other conversations' questions without hits, 0..1.
    """

    auc: float
    auc_nameless: float
    off_topic: int
    silent: float
    silent_off_topic: float


@dataclass(frozen=True, slots=True)
class Latency:
    """The time of a search for 10 hits, in microseconds, without a conversation's first search."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The figures of a store on a dataset. Equal reports found the same; times are not compared.

    Attributes:
        dataset: The dataset's name.
        conversations: The number of conversations.
        entries: The number of turns.
        pooled: The figures over all questions, except those of categories that the dataset reports apart.
        categories: The figures by category, in the order of the names.
        everything: The figures over all questions; None if none are apart.
        abstention: None if there is only one conversation, or if it was not asked for.
        latency: The times; only these differ from run to run.
    """

    dataset: str
    conversations: int
    entries: int
    pooled: Figures
    categories: Mapping[str, Figures]
    everything: Figures | None
    abstention: Abstention | None
    latency: Latency = field(compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The report as nested dictionaries of plain values, ready for JSON."""
        return asdict(self)

    def to_markdown(self) -> str:
        """The figures as a table with a row for each category, and a line on abstention and latency."""
        return "\n".join(
            [
                f"| | {' | '.join(_COLUMNS)} |",
                f"| :--- | {' | '.join(['---:'] * len(_COLUMNS))} |",
                *(f"| {' | '.join(cells)} |" for cells in self._rows()),
                "",
                self._last_line(),
            ]
        )

    def __repr__(self) -> str:
        found = f"R@10 {self.pooled.recall[10]:.3f}, nDCG@10 {self.pooled.ndcg:.3f}"
        return f"<Report of {self.dataset!r}: {self.pooled.questions:,} questions, {found}>"

    def _repr_html_(self) -> str:
        return f"{html_table((self.dataset, *_COLUMNS), self._rows())}\n<p>{escape(self._last_line())}</p>"

    def _rows(self) -> list[list[str]]:
        rows = [("pooled", self.pooled)]
        if self.everything is not None:
            rows.append(("everything", self.everything))
        rows += [(f"- {name}", figures) for name, figures in self.categories.items()]
        return [_cells(name, figures) for name, figures in rows]

    def _last_line(self) -> str:
        latency = f"p50 {self.latency.p50:.1f} us, p95 {self.latency.p95:.1f} us a search"
        if self.abstention is None:
            return latency
        auc, nameless = self.abstention.auc, self.abstention.auc_nameless
        return f"abstention AUC {auc:.3f}, without names {nameless:.3f}; {latency}"


_COLUMNS = (
    "questions", "R@1", "R@5", "R@10", "±", "R@20", "nDCG@10", "MRR", "Hit@10", "session Hit@1",
    "session Hit@5", "tokens, top 10",
)  # fmt: skip


def _cells(name: str, figures: Figures) -> list[str]:
    shares = [figures.recall[1], figures.recall[5], figures.recall[10], figures.margin[10]]
    shares += [figures.recall[20], figures.ndcg, figures.mrr, figures.hit[10]]
    sessions = [f"{share:.3f}" for share in (figures.session_hit or {}).values()] or ["", ""]
    counted = [name, f"{figures.questions:,}", *(f"{share:.3f}" for share in shares)]
    return [*counted, *sessions, f"{figures.tokens[10]:.0f}"]
