"""Thresholds: which answerable questions does a least score keep, and which does it leave without an answer?

python benches/quality/thresholds.py [--record DIR]

A question can be answered if a part of its evidence is among ten hits. Questions about something else are
those of other conversations of the set, without their names (`siltstone.evaluation.report`), 300 a
conversation, drawn with a seed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

from assistant import assistant_set
from harness import run
from siltstone import MemoryStore
from siltstone.evaluation import Dataset
from siltstone.evaluation.report import off_topic

LIMIT = 10
OFF_TOPIC = 300  #: questions a conversation
THRESHOLDS = (0.08, 0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.18, 0.2, 0.22, 0.25, 0.3)
#: Whole dialogues as queries: no threshold is of use there, and none is chosen by them.
DIALOGUES = ("madial-en", "madial-zh")


@dataclass(slots=True)
class Scores:
    """The scores of the questions of a set."""

    #: Of each question the best score, the scores of the evidence that was found, and how much there is.
    answers: list[tuple[float, list[float], int]] = field(default_factory=list)
    off_topic: list[float] = field(default_factory=list)

    def kept(self, least: float) -> float:
        """The share of the questions that can be answered whose best hit is at *least*."""
        able = [best for best, found, _ in self.answers if found]
        return sum(best >= least for best in able) / len(able)

    def lost(self, least: float, *, each: bool) -> float:
        """Recall@10 that is lost where each hit is held against *least*, or the best one alone."""

        def stay(best: float, found: list[float]) -> int:
            return sum((score if each else best) >= least for score in found)

        return fmean((len(found) - stay(best, found)) / of for best, found, of in self.answers)

    def silent(self, least: float) -> float | None:
        """The share of the questions about something else that find nothing."""
        return sum(best < least for best in self.off_topic) / len(self.off_topic) if self.off_topic else None


def main() -> int:
    """2 where it cannot measure."""
    return run(__doc__.splitlines()[0], "thresholds", measured)


def measured(datasets: list[Dataset]) -> Iterator[str]:
    """The lines of the record."""
    scores = {dataset.name: scored(dataset) for dataset in (*datasets, assistant_set())}
    return page(scores)


def scored(dataset: Dataset) -> Scores:
    """Every question of the set, in a store of its conversation."""
    found = Scores()
    others = off_topic(dataset) if len(dataset.conversations) > 1 else {}
    for conversation in dataset.conversations:
        with (
            tempfile.TemporaryDirectory(prefix="siltstone-thresholds-") as path,
            MemoryStore.open(path) as store,
        ):
            ids = store.index(conversation.id, conversation.entries()).entry_ids
            entry_of = {turn.id: entry_id for turn, entry_id in zip(conversation.turns, ids, strict=True)}
            for question in conversation.questions:
                if question.category in dataset.apart:
                    continue
                hits = {
                    hit.entry_id: hit.score for hit in store.search(conversation.id, question.text, LIMIT)
                }
                evidence = [hits[entry_of[turn]] for turn in question.evidence if entry_of[turn] in hits]
                best = max(hits.values(), default=0.0)
                found.answers.append((best, evidence, len(question.evidence)))
            asked = others.get(conversation.id, [])
            if dataset.name not in (
                "xquad-dev",
                *DIALOGUES,
            ):  # its conversations are the same texts, translated
                for query in Random(conversation.id).sample(asked, min(OFF_TOPIC, len(asked))):
                    (*_, best) = [0.0, *(hit.score for hit in store.search(conversation.id, query, 1))]
                    found.off_topic.append(best)
    return found


def page(scores: dict[str, Scores]) -> Iterator[str]:
    """Two tables: the share that is kept, and the Recall@10 that is lost."""
    chosen = [each for name, each in scores.items() if name not in DIALOGUES]
    yield "Answerable questions that are kept, by the best hit; in parentheses questions about something else"
    yield "that find nothing. The mean is that of the sets without whole dialogues as queries.\n"
    yield f"| at least | {' | '.join(scores)} | mean kept |"
    yield f"| ---: |{' ---: |' * len(scores)} ---: |"
    for least in THRESHOLDS:
        cells = []
        for each in scores.values():
            silent = each.silent(least)
            cells.append(f"{each.kept(least):.3f}" + ("" if silent is None else f" ({silent:.2f})"))
        mean = fmean(each.kept(least) for each in chosen)
        yield f"| {least:.2f} | {' | '.join(cells)} | {mean:.3f} |"
    yield "\nRecall@10 that is lost, where every hit is held against the threshold, or the best one.\n"
    yield f"| at least | {' | '.join(scores)} |"
    yield f"| ---: |{' ---: |' * len(scores)}"
    for least in THRESHOLDS:
        lost = [
            f"{each.lost(least, each=True):.3f} / {each.lost(least, each=False):.3f}"
            for each in scores.values()
        ]
        yield f"| {least:.2f} | {' | '.join(lost)} |"


if __name__ == "__main__":
    sys.exit(main())
