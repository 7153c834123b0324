"""Counting with a tokenizer: any that encodes, offline, once a text."""

from typing import Any

import pytest
from hypothesis import given

from compacting import assistant, exchange, long, user
from siltstone import (
    CompactionConfig,
    CompletionRequest,
    ConfigError,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    compact,
    estimate_tokens,
)
from siltstone.engine import Compacted
from siltstone.messages import read_history
from siltstone.models import ExtractiveModel
from siltstone.tokens import MESSAGE_TOKENS, TokenizerRule
from strategies import PIXEL, histories, texts


class Words:
    """A tokenizer of words, which counts how often it is asked."""

    name = "words"

    def __init__(self) -> None:
        self.asked = 0

    def encode(self, text: str) -> list[str]:
        self.asked += 1
        return text.split()


class Strict(Words):
    """A tokenizer that refuses invalid Unicode."""

    def encode(self, text: str) -> list[str]:
        text.encode()
        return super().encode(text)


def test_what_is_said_called_and_answered_counts_and_media_as_the_model_counts() -> None:
    rule = TokenizerRule(Words(), model="gpt-4o")
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    call, result = exchange("c", "one two three", name="read")
    spoken = {"role": "assistant", "content": "yes", "reasoning_content": "let me see"}
    messages = [user("a b c d"), {"role": "user", "content": [image]}, call, result, spoken]
    # the call: read{"path": "src/c.py"} is two words; the placeholder of the image is not counted beside it
    own = [4, 85 + 170, 2, 3, 4]
    assert [estimate_tokens(message, rule) for message in messages] == [MESSAGE_TOKENS + n for n in own]
    assert estimate_tokens(messages, rule) == sum(own) + 5 * MESSAGE_TOKENS
    assert estimate_tokens("", rule) == 0


def test_a_text_is_encoded_once() -> None:
    words = Words()
    rule = TokenizerRule(words)
    messages = [user("the same words"), user("the same words"), assistant("others")]
    assert estimate_tokens(messages, rule) == estimate_tokens(messages, rule)
    assert words.asked == 2


@given(texts())
def test_no_text_is_refused(text: str) -> None:
    assert TokenizerRule(Strict()).count_text(text) >= 0


@given(histories())
def test_the_whole_is_the_sum_of_its_messages(raws: list[Any]) -> None:
    rule, history = TokenizerRule(Strict()), read_history(raws)
    assert rule.count(history) == sum(rule.count([message]) for message in history)


def test_a_policy_a_session_and_the_net_count_by_it() -> None:
    rule = TokenizerRule(Words())
    config = CompactionConfig(auto_compact_threshold=900, estimator=rule, max_summary_tokens=50)
    outcome = compact(long(), ThresholdCompactor(config), model=ExtractiveModel(rule))
    assert isinstance(outcome, Compacted)
    assert outcome.tokens_before == estimate_tokens(long(), rule)
    with SimpleMemoryStore() as store:
        session = Session.open(
            None, "s", policy=ThresholdCompactor(config), model=None, memory=store, context_window=1_500
        )
        session.append(*long(), user("on"))
        prepared = session.prepare()
        assert prepared.tokens == estimate_tokens(prepared.messages, rule) <= 1_500
        assert isinstance(prepared.compaction, Compacted)


class Bytes:
    """A tokenizer that finds a token in every byte: four times what the estimates say."""

    def encode(self, text: str) -> bytes:
        return text.encode("utf-8", "surrogatepass")


def test_the_extractive_model_stays_within_its_budget_by_a_tokenizer_too() -> None:
    rule = TokenizerRule(Bytes())
    request = CompletionRequest([user("User: " + "some words to keep " * 90), user("Summarise.")], 120)
    text = ExtractiveModel(rule)(request).text
    assert 0 < rule.count_text(text) <= 120


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TokenizerRule(7), "tokenizer must have a method encode, got 7"),  # type: ignore[arg-type]
        (lambda: TokenizerRule(Words(), "blocks"), "name must be one of its own, got 'blocks'"),
        (lambda: CompactionConfig(estimator=7), "estimator: unknown token rule 7"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_tokenizer_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert said in str(caught.value)


def test_an_encoding_of_tiktoken_counts_without_a_network() -> None:
    """A vocabulary of bytes, built here: special tokens in a text are text."""
    tiktoken = pytest.importorskip(
        "tiktoken", reason="tiktoken is not installed; it comes with the group sdk"
    )
    encoding = tiktoken.Encoding(
        "bytes",
        pat_str=r"[\s\S]",
        mergeable_ranks={bytes([value]): value for value in range(256)},
        special_tokens={"<|end|>": 256},
    )
    rule = TokenizerRule(encoding)
    assert rule.name == "tokenizer:bytes"
    for text in ("plain", "Zürich 記憶", "<|end|>"):
        assert rule.count_text(text) == len(text.encode())
    assert rule.count_text("a\ud800") >= 1
