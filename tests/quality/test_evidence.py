"""Does the evidence of questions survive in summaries that no model wrote? See benches/quality/survival.py.

Extractive summaries are held against truncation and random sentences of the same budget. The figures are
the same on every machine; `python benches/quality/evidence.py` prints all of them.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from siltstone.evaluation import Conversation, Dataset, Question, Turn, load_dataset

QUALITY = Path(__file__).parent.parent.parent / "benches" / "quality"


@pytest.fixture(scope="module")
def survival() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(QUALITY))
        yield import_module("survival")
    del sys.modules["survival"]


def totals(survival: ModuleType, dataset: Dataset, run: Any) -> dict[str, Any]:
    """What survives by writer, summed over the conversations and the seeds of a writer."""
    asked = survival.answerable(dataset)
    return {
        name: sum((run(each, writer) for writer in same for each in asked), survival.Survival())
        for name, same in survival.writers().items()
    }


def in_context(found: Any) -> float:
    """Of how many questions the evidence survives in summary and context."""
    return float(found.in_context / found.questions)


def with_search(found: Any) -> float:
    """The same with a search beside it."""
    return float(found.with_search / found.questions)


def of_lost(found: Any) -> float:
    """Of the questions whose evidence has left the context: how many the summary answers."""
    return float(found.of_lost / found.lost)


def recorded(data_dir: Path, name: str) -> Dataset:
    if not (data_dir / f"{name}.json").is_file():
        pytest.skip(f"no recorded conversations at {str(data_dir)!r}; set SILTSTONE_DATA")
    return load_dataset(name, data_dir)


@pytest.mark.parametrize(
    ("window", "least", "ahead", "more"), [(8_800, 0.70, 0.12, 0.20), (13_200, 0.90, 0.10, 0.20)]
)
def test_in_an_agent_s_session_extractive_summaries_keep_clearly_more(
    survival: ModuleType, data_dir: Path, tmp_path: Path, window: int, least: float, ahead: float, more: float
) -> None:
    """The context beside the summary is the same for all, so the lead is taken over what has left it too."""
    found = in_sessions(survival, data_dir, tmp_path, window)
    ours, others = found.pop("ExtractiveModel"), found.values()
    assert in_context(ours) >= least, found
    assert in_context(ours) >= max(map(in_context, others)) + ahead, found
    assert of_lost(ours) >= max(map(of_lost, others)) + more, found
    assert with_search(ours) >= max(0.9, max(map(with_search, others))), found


def in_sessions(survival: ModuleType, data_dir: Path, tmp_path: Path, window: int) -> dict[str, Any]:
    """What survives in the sessions of agents, by the writer of summaries."""
    dataset, places = recorded(data_dir, "agent-dev"), iter(range(100))
    calls = survival.calls_of(dataset, data_dir)

    def run(conversation: Conversation, writer: Any) -> Any:
        messages = survival.as_messages(conversation, calls)
        return survival.in_session(conversation, messages, writer, window, tmp_path / str(next(places)))

    return totals(survival, dataset, run)


@pytest.mark.parametrize(("name", "least", "ahead"), [("agent-dev", 0.70, 0.4), ("locomo-dev", 0.48, 0.15)])
def test_one_extractive_summary_of_a_tenth_keeps_clearly_more(
    survival: ModuleType, data_dir: Path, name: str, least: float, ahead: float
) -> None:
    dataset = recorded(data_dir, name)
    calls = survival.calls_of(dataset, data_dir)

    def run(conversation: Conversation, writer: Any) -> Any:
        return survival.alone(conversation, survival.as_messages(conversation, calls), writer, 0.1)

    found = {writer: in_context(each) for writer, each in totals(survival, dataset, run).items()}
    kept = found.pop("ExtractiveModel")
    assert kept >= least, (kept, found)
    assert kept >= max(found.values()) + ahead, (kept, found)


def test_evidence_survives_where_three_fifths_of_its_rare_words_do(survival: ModuleType) -> None:
    """Five turns. "the" is in all (idf 0), "tide" in two (ln 5/2), all others in one (ln 5).

    Over the 12 words of the turns the median idf is ln 5/2, so the words of one turn alone are rare.
    """
    texts = ["the tide", "the tide", "the", "the silt gravel sand clay loam", "the"]
    turns = tuple(Turn(str(at), text) for at, text in enumerate(texts))
    rarity = survival.Rarity(Conversation("river", turns, (Question("what?", ("3",)),)))
    assert rarity.of(["3"]) == {"silt", "gravel", "sand", "clay", "loam"}
    assert rarity.survives(["3"], {"silt", "gravel", "sand"})
    assert not rarity.survives(["3"], {"the", "tide", "silt", "gravel"})
    assert rarity.of(["2"]) == {"the"}, "where no word is rare, all count"
