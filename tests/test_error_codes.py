"""Each kind of error has a word of its own, which programs and models can tell it by."""

import importlib
import inspect
import pickle
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import siltstone
import siltstone.events
from siltstone import MemoryStore, Session, SimpleMemoryStore, errors
from siltstone.compaction import Compaction, Compactor, Skip
from siltstone.engine import Failed
from siltstone.errors import SiltstoneError, StoreError
from siltstone.llm import Flow
from siltstone.messages import Message
from siltstone.tokens import TokenRule, rule

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SiltstoneError)]
LONG = [{"role": "user", "content": f"Step {number}. " + "word " * 60} for number in range(12)]
POLICY = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=300))
STRICT = siltstone.ThresholdCompactor(
    siltstone.CompactionConfig(auto_compact_threshold=300, on_model_failure="fail")
)


def test_mk_64_72_every_class_of_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes) > 20
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)
    assert errors.StoreIoError.code == "memory_io"
    assert errors.ToolNotFoundError.code == "tool_not_found"


def test_mk_72_an_error_of_the_store_reaches_the_caller_of_the_tool_with_its_code(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    tool = Session.open(None, "s", memory=store).memory_search
    store.close()
    with pytest.raises(StoreError) as caught:
        tool.call({"query": "anything"})
    assert caught.value.code == "store_closed"
    assert pickle.loads(pickle.dumps(caught.value)).code == "store_closed"


def test_a_model_that_raises_is_named_by_its_class() -> None:
    def model(request: Any) -> str:
        raise TimeoutError("no answer")

    outcome = siltstone.compact(LONG, STRICT, model=model)
    assert isinstance(outcome, Failed)
    event = outcome.events[-1]
    assert isinstance(event, siltstone.events.CompactionFailed)
    assert (outcome.reason, outcome.error_class) == ("llm_failed", "TimeoutError")
    assert (event.error_class, event.attempted_entries) == ("TimeoutError", 0)


class Broken(TokenRule):
    """A rule of the caller's own that cannot count."""

    name = "broken"

    def units(self, message: Message) -> int:
        raise ZeroDivisionError("no tokenizer")

    def tokens(self, units: int) -> int:
        return units

    def count_text(self, text: str) -> int:
        return rule("blocks").count_text(text)


class Uncounted(Compactor):
    name = "uncounted"
    token_rule = Broken()

    def should_compact(self, context: object) -> None:
        return None

    def flow(self, history: Any, trigger: Any) -> Flow[Compaction | Skip]:
        return (yield from POLICY.flow(history, trigger))


def test_a_token_rule_that_raises_is_a_failure_of_its_own() -> None:
    outcome = siltstone.compact(LONG, Uncounted(), model=lambda request: "Short.")
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.error_class) == ("estimation_failed", "ZeroDivisionError")
    assert [type(event).__name__ for event in outcome.events] == ["CompactionStarted", "CompactionFailed"]
    assert outcome.messages == LONG


def test_the_store_that_is_asked_is_not_named_by_a_code_of_another() -> None:
    with SimpleMemoryStore() as store, pytest.raises(StoreError) as caught:
        store.entries("s", limit=0)
    assert caught.value.code == type(caught.value).code


def test_every_error_that_a_caller_can_meet_is_exported() -> None:
    """But for words between two of our own files, which never come out of a call."""
    inner = {"HookError", "SummarizerOverflow"}
    found = {each.__name__ for each in everything_below(siltstone.SiltstoneError)}
    public = {*vars(errors), *vars(siltstone.compaction)}
    assert {name for name in found if not name.startswith("_")} - inner <= public


def everything_below(error: type[Exception]) -> set[type[Exception]]:
    """The classes of the package that inherit from *error*, those of rooms not yet imported included.

    The adapters of frameworks that are not installed here are left out.
    """
    outside = ("siltstone.cli", "siltstone.__main__")
    for module in pkgutil.walk_packages(siltstone.__path__, "siltstone.", onerror=lambda name: None):
        if not module.name.startswith(outside):
            try:
                importlib.import_module(module.name)
            except ImportError:
                if not module.name.startswith("siltstone.adapters."):
                    raise
    below = {each for each in error.__subclasses__() if each.__module__.startswith("siltstone")}
    return {error, *below, *(deeper for each in below for deeper in everything_below(each))}
