"""Evidence that survives a compaction: of how many questions, without a model?

make quality
python benches/quality/evidence.py --record benches/record
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness import run
from siltstone.evaluation import Conversation, Dataset
from survival import (
    LEAST,
    SEEDS,
    Calls,
    Survival,
    Writer,
    alone,
    answerable,
    as_messages,
    calls_of,
    in_session,
    writers,
)

WINDOWS = (6_000, 8_000, 12_000, 16_000, 20_000)  # tokens; the sessions have 22,000 and 31,000
SHARES = (0.05, 0.1, 0.2)  # of a conversation's tokens: what one summary of all of it may have


def main() -> int:
    """2 where there is nothing to measure."""
    return run(__doc__.splitlines()[0], "evidence", page)


def page(datasets: Sequence[Dataset]) -> Iterator[str]:
    """The lines of the record."""
    agents = next(each for each in datasets if each.name == "agent-dev")
    yield from [
        "No model is asked, and all figures are the same in every run.",
        "",
        f"The evidence of a question survives in a text that has at least {LEAST:.0%} of its rare words:",
        "those whose idf over the turns is above the median, taken over every word of every turn.",
        f"Random sentences are the mean of {len(SEEDS)} seeds.",
        "Every writer has the same budget; questions of category `adversarial` are left out.",
        "",
        "## In an agent's session",
        "",
        "`agent-dev`: two sessions of an agent, 51 questions, `ThresholdCompactor()` in a `Session`, with",
        "`prepare()` before each of the agent's steps.",
        "The summary has an eighth of the window at most, and is written anew at each of many compactions.",
        "*lost*: questions whose evidence is not in the messages that stayed.",
        "A smaller summary puts the next compaction off, so what has left differs between writers.",
        "*of those*: the share of the lost whose evidence survives in the summary.",
        "",
        "| window | writer | tokens of a summary | lost | of those | summary + context | + top-5 search |",
        "| ---: | :--- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for window in WINDOWS:
        for name, found in measured(agents, session_of(window)).items():
            yield _session_row(f"{window:,}", name, found, len(agents.conversations))
    yield from [
        "",
        "## One summary of everything",
        "",
        "The writer is shown a whole conversation at once, and nothing stays beside the summary.",
        "`madial` is lists of facts of which none is more telling than another, and no conversation.",
        "",
        f"| dataset | questions | writer | {' | '.join(f'{share:.0%} of the tokens' for share in SHARES)} |",
        f"| :--- | ---: | :--- | {' | '.join(['---:'] * len(SHARES))} |",
    ]
    for dataset in datasets:
        columns = [measured(dataset, summary_of(share)) for share in SHARES]
        for name in writers():
            cells = [f"{column[name].in_context / column[name].questions:.3f}" for column in columns]
            yield f"| {dataset.name} | {columns[0][name].questions:.0f} | {name} | {' | '.join(cells)} |"


Run = Callable[[Conversation, Calls, Writer], Survival]


def measured(dataset: Dataset, run: Run) -> dict[str, Survival]:
    """The hits of *run* with each writer, summed over conversations; the mean over the seeds of a writer."""
    calls = calls_of(dataset)
    asked = answerable(dataset)
    return {
        name: sum((run(each, calls, writer) for writer in same for each in asked), Survival()) / len(same)
        for name, same in writers().items()
    }


def session_of(window: int) -> Run:
    """A session in a window of *window* tokens."""

    def run(conversation: Conversation, calls: Calls, writer: Writer) -> Survival:
        with tempfile.TemporaryDirectory(prefix="siltstone-evidence-") as place:
            messages = as_messages(conversation, calls)
            return in_session(conversation, messages, writer, window, Path(place, "store"))

    return run


def summary_of(share: float) -> Run:
    """One summary of *share* of the conversation's tokens."""

    def run(conversation: Conversation, calls: Calls, writer: Writer) -> Survival:
        return alone(conversation, as_messages(conversation, calls), writer, share)

    return run


def _session_row(window: str, name: str, found: Survival, sessions: int) -> str:
    of_lost = found.of_lost / found.lost if found.lost else 0.0
    shares = found.in_context / found.questions, found.with_search / found.questions
    return (
        f"| {window} | {name} | {found.tokens / sessions:,.0f} | {found.lost:.0f} | {of_lost:.3f} "
        f"| {shares[0]:.3f} | {shares[1]:.3f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
