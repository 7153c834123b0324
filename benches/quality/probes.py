"""How often do five results answer what an agent asks its memory, by kind? Prints and records it.

make quality
python benches/quality/probes.py --record benches/record
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from contenders import DEFAULT, PEERS, contenders
from harness import run
from probe_questions import QUESTIONS
from record import commit, machine
from siltstone.evaluation import Conversation, Dataset, Question, Report, evaluate

COMMAND = "python benches/quality/probes.py --record benches/record"
HITS = 5


def main() -> int:
    """2 where it cannot measure."""
    name = f"{datetime.now(UTC):%Y-%m-%d}-probes.md"
    return run("probes", __doc__.splitlines()[0], name, measured)


def measured(datasets: list[Dataset]) -> str:
    """The page of the record."""
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


def page(reports: Mapping[str, Report]) -> str:
    """The whole record as Markdown."""
    kinds = list(reports[DEFAULT].categories)
    numbers = [reports[DEFAULT].categories[kind].questions for kind in kinds]
    head = " | ".join(f"{kind} ({number})" for kind, number in zip(kinds, numbers, strict=True))
    lines = [
        f"# Questions as agents ask them, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`{COMMAND}` on commit {commit()}.",
        f"{machine()}.",
        "",
        f"{sum(numbers)} questions on the two recorded sessions of agent-dev (marot/spotter, MIT).",
        f"Hit@{HITS}: the share of questions that one of the first {HITS} results answers.",
        "",
        f"| ranker | all | {head} | MRR |",
        f"| :--- | ---: |{' ---: |' * len(kinds)} ---: |",
    ]
    for name, report in reports.items():
        cells = [f"{report.categories[kind].hit[HITS]:.2f}" for kind in kinds]
        pooled = report.pooled
        lines.append(f"| {name} | {pooled.hit[HITS]:.3f} | {' | '.join(cells)} | {pooled.mrr:.3f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
