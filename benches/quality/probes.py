"""Questions as agents ask them: how often do five results answer, by kind?

make quality
python benches/quality/probes.py --record benches/record
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from contenders import DEFAULT, PEERS, contenders
from harness import run
from siltstone.evaluation import Conversation, Dataset, Question, Report, evaluate

HITS = 5
#: By conversation: the kind of a question, the question, and the turns that answer it. Kinds: words, an
#: identifier, a number, the text of an error, words with a typo, what is not so, a date, other words.
QUESTIONS = json.loads((Path(__file__).parent / "questions.json").read_text("utf-8"))["probes"]


def main() -> int:
    """2 where it cannot measure."""
    return run(__doc__.splitlines()[0], "probes", measured)


def measured(datasets: list[Dataset]) -> Iterator[str]:
    """The lines of the record."""
    (agent,) = [dataset for dataset in datasets if dataset.name == "agent-dev"]
    return page(measure(asked(agent)))


def asked(agent: Dataset) -> Dataset:
    """The recorded sessions with the questions of this bench in place of their own."""
    return Dataset("probes", tuple(map(_with_probes, agent.conversations)))


def _with_probes(conversation: Conversation) -> Conversation:
    questions = (
        Question(text, tuple(turns.split()), kind) for kind, text, turns in QUESTIONS[conversation.id]
    )
    return replace(conversation, questions=tuple(questions))


def measure(dataset: Dataset) -> dict[str, Report]:
    """Every contender and every peer that is here."""
    reports = {}
    for contender in contenders():
        with contender.factory() as make:
            reports[contender.name] = evaluate(make, dataset, ties="earlier")
    for peer in PEERS:
        if peer.is_here:
            reports[peer.name] = evaluate(peer.make, dataset, ties="earlier")
    return reports


def page(reports: Mapping[str, Report]) -> Iterator[str]:
    """The lines of the record."""
    numbers = {kind: figures.questions for kind, figures in reports[DEFAULT].categories.items()}
    yield f"{sum(numbers.values())} questions on the two recorded sessions of agent-dev."
    yield f"Hit@{HITS}: the share of questions that one of the first {HITS} results answers.\n"
    yield f"| ranker | all | {' | '.join(f'{kind} ({number})' for kind, number in numbers.items())} | MRR |"
    yield f"| :--- | ---: |{' ---: |' * len(numbers)} ---: |"
    for name, report in reports.items():
        cells = [f"{report.categories[kind].hit[HITS]:.2f}" for kind in numbers]
        pooled = report.pooled
        yield f"| {name} | {pooled.hit[HITS]:.3f} | {' | '.join(cells)} | {pooled.mrr:.3f} |"


if __name__ == "__main__":
    sys.exit(main())
