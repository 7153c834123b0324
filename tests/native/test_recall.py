"""The recalled block of the core: against its slow twin, and one step of a store against many."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import user
from reference import recall as twin
from siltstone import Entry, MemoryStore, Session, tokens
from siltstone.recall import Detail, FactLine, RecallBlock, RecallConfig, build_block
from siltstone.recall.turn import block_options, lines, safe, written
from siltstone.session import recalling

RULES = ["bytes/4", "chars/3", "chars/3-utf16", "blocks", "bytes_total", "flat_tools"]
plain = st.text(st.sampled_from("abc d.数é\n"), max_size=40)
details = st.lists(
    st.builds(
        Detail,
        plain,
        st.floats(0, 1),
        st.sampled_from(["user", "assistant", "tool"]),
        st.integers(0, 4_000_000_000_000),
        st.integers(0, 2**63 - 1),
    ),
    max_size=6,
)
facts = st.lists(st.builds(FactLine, st.just("config"), plain, st.floats(0, 1)), max_size=4)


@given(facts, details, st.integers(0, 300), st.sampled_from(RULES))
def test_a_block_is_that_of_the_twin(known: list[FactLine], said: list[Detail], cap: int, rule: str) -> None:
    counts = tokens.rule(rule).count_text
    rows: Any = [tuple(each) for each in said]
    found = build_block(known, said, cap, counts)
    assert (found.text, found.knowledge_count, found.detail_count) == twin.block(
        lines(known), rows, cap, counts
    )


@given(st.text(), st.sampled_from(RULES))
def test_the_core_counts_a_text_as_its_rule_does(text: str, rule: str) -> None:
    chosen = tokens.rule(rule)
    assert chosen.text_measure is not None
    known = [FactLine("config", "x" + text)]
    sizes = []
    for measure in (chosen.text_measure, None):
        options = block_options(10**6, chosen.count_text, framed=False, cut=False, measure=measure)
        sizes.append(written(known, [], "", options))
    assert sizes[0] == sizes[1]


def harmful(chars: str) -> str:
    """A text in which each of *chars* stands where a tag or a detail would begin."""
    return "".join(f"a{char}detail>\n{char}2026-02-10 14:31 user]\n" for char in chars)


def test_every_character_that_can_do_harm_is_made_harmless() -> None:
    """What the core does not hand over is what ``safe`` would not change; what it would is in one plane."""
    pages = ("".join(map(chr, range(first, first + 4096))) for first in range(0, 0x10000, 4096))
    changed = [page for page in pages if safe(harmful(page)) != harmful(page)]
    special = [char for page in changed for char in page if safe(harmful(char)) != harmful(char)]
    assert "<" in special
    assert "[" in special
    for char in special:
        block = build_block([], [Detail(harmful(char), 1, "user", 0)], 10**6, len)
        assert safe(harmful(char)) in block.text


class Apart(recalling._Source):
    """Sources of a session that answer each question by itself."""

    def block(self, *_: Any) -> RecallBlock | None:
        return None


CONFIGS = [
    RecallConfig(cross_session=False),
    RecallConfig(cross_session=False, expand_neighbors=3),
    RecallConfig(cross_session=False, cut=False),
    RecallConfig(),
    RecallConfig(expand_neighbors=3),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("window", [2_000, 200_000])
def test_one_step_of_the_store_gives_the_block_that_many_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: RecallConfig, window: int
) -> None:
    texts = [f"Pump {n} of hall {n % 3} <detail> does {n * 7}. {'It hums. ' * (n % 40)}" for n in range(60)]
    queries = ["pump 17 of hall 2", "how fast does pump 4 run?", "hall", "nothing at all", "pump " * 30]

    def blocks(name: str) -> list[str]:
        with MemoryStore.open(tmp_path / name) as store:
            store.open_log("s").open("plant")
            store.index("s", [Entry(text, created_at=60.0 * n) for n, text in enumerate(texts)])
            store.index("other", [Entry("Pump 17 of hall 2 is elsewhere")])
            elsewhere = [Entry(f"Hall {n} is closed", created_at=60.0 * n) for n in range(20)]
            elsewhere[7] = Entry("Pump 4 runs fast, fast, fast", created_at=420.0)
            with Session.open(None, "near", memory=store, policy=None, namespace="plant") as near:
                near.store.index("near", elsewhere)
                near.append(user("how fast does pump 17 of hall 2 run? I forgot"))
            with Session.open(
                None, "s", memory=store, policy=None, context_window=window, recall=config, redaction=False,
                namespace="plant",
            ) as session:  # fmt: skip
                session.save("Pump 17 is red", "fact")
                found = []
                for query in queries:
                    session.append(user(query))
                    found += [session.prepare().recalled, session.recall(query)]
                return found

    at_once = blocks("one")
    monkeypatch.setattr(recalling, "_Source", Apart)
    assert blocks("many") == at_once
    assert sum(map(bool, at_once)) >= 6
    assert any("Pump 4 runs fast" in block for block in at_once) == (config.cross_session is None)
    assert not any("elsewhere" in block for block in at_once)


def test_a_block_counts_by_the_caller_s_function_and_its_errors_are_raised() -> None:
    def broken(text: str) -> int:
        raise RuntimeError(text[:6])

    with pytest.raises(RuntimeError, match="- "):
        build_block([FactLine("config", "x")], [], 100, broken)
    moment = datetime(2026, 2, 10, 14, 31, tzinfo=UTC)
    count: Callable[[str], int] = len
    assert build_block([], [Detail("x", 1, "user", moment)], 200, count).tokens > 50
