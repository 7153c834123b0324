"""Do the SDKs' own types accept what a compaction and a repair return? Needs the dependency group ``sdk``."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, result
from siltstone import Emergency, ThresholdCompactor, compact
from siltstone.errors import ContextOverflowError
from siltstone.messages import repair
from siltstone.systems.meerkat import CompactionConfig
from strategies import anthropic_histories, openai_histories, responses_histories

DIALECTS = {
    "openai.chat": ("openai.types.chat", "ChatCompletionMessageParam", openai_histories),
    "openai.responses": ("openai.types.responses", "ResponseInputItemParam", responses_histories),
    "anthropic": ("anthropic.types", "MessageParam", anthropic_histories),
}


@cache
def adapter(dialect: str) -> Any:
    """Kept for good: what it reads lazily outlives the call, and must not outlive the adapter."""
    module, name, _ = DIALECTS[dialect]
    kind = getattr(importlib.import_module(module), name)
    return importlib.import_module("pydantic").TypeAdapter(list[kind])


def accept(dialect: str, raws: list[Any]) -> None:
    """Raises where the SDK's request types refuse one of *raws*."""
    # System text is a parameter of Anthropic's requests, not a message.
    sent = [raw for raw in raws if dialect != "anthropic" or raw.get("role") != "system"]
    read_out(adapter(dialect).validate_python(sent))


def read_out(value: Any) -> None:
    """Reads every item: pydantic checks what is typed as an ``Iterable`` only then."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str) or not isinstance(value, (list, Iterator)):
        return
    for item in value:
        read_out(item)


@pytest.fixture(autouse=True)
def _sdks() -> None:
    for name in ("pydantic", "openai", "anthropic"):
        pytest.importorskip(name, reason=f"{name} is not installed; it comes with the dependency group sdk")


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_a_compaction_returns_is_accepted(dialect: str, data: st.DataObject) -> None:
    raws = data.draw(DIALECTS[dialect][2](min_turns=1, legal=True))
    policy = data.draw(
        st.sampled_from(
            [
                ThresholdCompactor(CompactionConfig(auto_compact_threshold=100, recent_turn_budget=1)),
                Emergency(300),
            ]
        )
    )
    try:
        raws = compact(raws, policy, model=lambda request: "So.").messages
    except ContextOverflowError:
        return
    accept(dialect, raws)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_a_repair_returns_is_accepted(dialect: Any, data: st.DataObject) -> None:
    raws = data.draw(DIALECTS[dialect][2](min_turns=1, legal=True))
    lost = data.draw(st.integers(0, len(raws) - 1))
    accept(dialect, repair(raws[:lost] + raws[lost + 1 :], dialect).messages)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_no_message_is_refused(dialect: str) -> None:
    """The check can fail."""
    with pytest.raises(Exception, match="validation error"):
        accept(dialect, [ask(), {"role": "nobody", "content": [{"type": "nothing"}]}])
    if dialect != "openai.chat":
        with pytest.raises(Exception, match="validation error"):
            accept(dialect, [result("a")])
