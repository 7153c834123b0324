"""The requests of waterfall memory: their material, and portions that fit a small window."""

from __future__ import annotations

import pytest

from playing import Play
from siltstone import CompletionRequest, ExtractiveModel, WaterfallCompactor
from siltstone.engine import Compacted
from siltstone.messages import MaterialItem
from siltstone.systems.waterfall.config import WaterfallConfig


def test_a_slice_larger_than_the_summarisers_window_is_told_whole_in_portions():
    config = WaterfallConfig(immediate_window=4, recent_window=8, summarizer_window=1_024, max_tokens=100)
    session = Play(WaterfallCompactor(config))
    session.append(*({"role": "user", "content": f"Entry {n}: " + f"word{n} " * 100} for n in range(13)))
    assert isinstance(session.boundary(), Compacted)
    assert len(session.prompts) > 1, "one request has no room for all"
    assert all(session.policy.token_rule.count_text(prompt) + 100 <= 1_024 for prompt in session.prompts)
    sent = "".join(session.prompts)
    assert all(sent.count(f"word{n} ") >= 99 for n in range(9)), "every text is sent"


def test_the_extractive_model_reads_the_slice_and_not_the_prompt():
    session = Play(WaterfallCompactor(), ExtractiveModel())
    session.append(
        *({"role": "user", "content": f"The port of service {n} is {3000 + n}."} for n in range(129))
    )
    session.boundary()
    (summary,) = session.summaries()
    text = summary.text
    assert "3000" in text
    assert "meta-commentary" not in text


@pytest.mark.parametrize("style", ["base", "instruct"])
def test_the_material_of_the_portions_is_every_text_once_with_its_speaker(style: str):
    """Portions were given as text alone, and a model that selects lines read the speakers out of it."""
    material: list[list[MaterialItem]] = []

    def keep(request: CompletionRequest) -> str:
        if request.purpose == "summary":
            assert request.material is not None
            material.append(list(request.material))
        return "A summary."

    config = WaterfallConfig(
        immediate_window=4, recent_window=8, summarizer_window=1_024, max_tokens=100, prompt_style=style
    )
    session = Play(WaterfallCompactor(config), keep)
    roles = "assistant", "user"
    raws = [{"role": roles[n % 2], "content": f"Entry {n}:\n" + f"word{n} " * 100} for n in range(13)]
    session.append(*raws)
    assert isinstance(session.boundary(), Compacted)
    assert len(material) > 1
    assert all(material)
    read: dict[int | None, str] = {}
    for item in (item for portion in material for item in portion):
        assert item.role == roles[(item.seq or 0) % 2]
        assert item.continues is (item.seq in read)
        read[item.seq] = read.get(item.seq, "") + item.text
    assert [read[n].split() for n in range(9)] == [raws[n]["content"].split() for n in range(9)]
