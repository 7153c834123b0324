"""A text is found in another one, however deep JSON has it, and in spellings that mean the same."""

import base64
import json
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import example, given, strategies as st

from hostile_texts import hostile
from shapes import call, result
from siltstone import Entry, MemoryStore, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.errors import ConfigError
from siltstone.memory.forgetting import DEEPEST, MOST_SPELLED, Criteria, Holding, Sought
from siltstone.memory.log import LogRow
from strategies import texts

KEY = '-----BEGIN KEY-----\nMII"q\\B/\té\U0001f511\n-----END KEY-----\n'


def holds(text: str, sought: str) -> bool:
    return Sought(sought).is_in(text)


def nested(text: str, depth: int, *, ascii_only: bool) -> str:
    for _ in range(depth):
        text = json.dumps({"key": text}, ensure_ascii=ascii_only)
    return text


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("depth", range(DEEPEST + 1))
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}",
        '{{"a": 1}}\n{}\n{{"b": "\\ud83d"}}\n',
        "row 1: {} and C:\\new\\u",
        "unclosed: \"{}",
    ],
    ids=["alone", "fence", "headers", "lines", "row", "broken"],
)  # fmt: skip
def test_json_is_read_in_any_text_to_the_depth_that_is_promised(around: str, depth: int, ascii_only: bool):
    text = around.format(nested(KEY, depth, ascii_only=ascii_only))
    assert holds(text, KEY)
    assert not holds(text, KEY.replace("MII", "MIJ"))


def test_deeper_than_that_it_is_not_read() -> None:
    assert not holds(nested(KEY, DEEPEST + 1, ascii_only=True), KEY)


@pytest.mark.parametrize(
    "written",
    [r"J\u00f6rg", r"J\u00F6rg", r"\u004A\u00f6r\u0067", r"{\"a\": \"J\\u00f6rg\"}", r"J\\\\u00F6rg"],
)
def test_escapes_of_either_case_are_read(written: str) -> None:
    assert holds(written, "Jörg")
    assert holds(r"\ud83d\udd11 \uD83D\uDD11", "\U0001f511 \U0001f511")


def test_what_is_no_json_is_not_read() -> None:
    assert not holds(base64.b64encode(KEY.encode()).decode(), KEY)
    assert not holds("J%C3%B6rg J&ouml;rg J\\xf6rg", "Jörg")
    assert holds("C:\\new\\table", "C:\\new\\table")
    assert not holds("abc", "abd")


@given(texts(min_size=1), texts(), texts(), st.integers(0, DEEPEST), st.booleans())
@example("\ud83d", "", "", 2, True)
def test_whatever_is_written_as_json_is_found(
    sought: str, before: str, after: str, depth: int, ascii_only: bool
) -> None:
    paired = sought.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert holds(before + nested(f"<{sought}>", depth, ascii_only=ascii_only) + after, paired)


NAME = "José Núñez"
NEAR = {  # a text, and how else somebody may have written it
    NAME: ("JOSÉ NÚÑEZ", "José\n Núñez", "José\u00a0Núñez", "jos\u200bé Núñez", "Jos%C3%A9+N%C3%BA%C3%B1ez"),
    "Pat O'Neill": ("pat o\u2019neill", "Pat%20O%27Neill", "Pat O&#39;Neill", "PAT\tO`NEILL"),
    'say "yes"': ("say \u201cyes\u201d", "Say &quot;Yes&quot;", "say \u00abyes\u00bb"),
    "pat@example.org": ("Pat@Example.org", "pat%40example.org", "pat&#x40;example.org"),
    "01715550199": ("0171 555 0199", "0171-555-0199", "(0171) 555.0199"),
    "12-34-56": ("123456", "12 34 56", "12\u201334\u201356"),
    "a - b": ("A \u2013 b", "a\n-\nb"),
}
FAR = ("Jose Nunez", "JoséNúñez", "Pat ONeill", "say yes", "pat.example.org", "1715550198", "12345", "a b")


@pytest.mark.parametrize(("sought", "spelled"), [(key, each) for key in NEAR for each in NEAR[key]])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_near_spellings_are_named_and_meant_if_asked_for(sought: str, spelled: str, depth: int) -> None:
    for ascii_only in (False, True):
        text = nested(f"so {spelled} said", depth, ascii_only=ascii_only)
        assert not holds(text, sought)
        (found,) = Sought(sought).spellings(text)
        assert unicodedata.normalize("NFC", spelled).strip("()") in (found, found.strip("()"))
        assert Sought(sought, near=True).is_in(text)
    assert Sought(sought).spellings(sought) == set(), "the text itself is no near spelling"


@pytest.mark.parametrize("sought", NEAR)
def test_what_is_written_otherwise_is_not_near(sought: str) -> None:
    assert not any(Sought(sought, near=True).is_in(far) for far in FAR)
    assert Sought(sought * MOST_SPELLED).spellings(sought.upper() * MOST_SPELLED) == set()


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_spellings_that_are_canonically_equal_are_one(tmp_path, stored: str, asked: str) -> None:
    name = unicodedata.normalize(stored, f"{NAME} \u1ec7")
    with MemoryStore.open(tmp_path) as store, Session.open(None, "a", memory=store) as session:
        session.append(
            {"role": "user", "content": f"It is {name}."},
            {"role": "user", "content": json.dumps({"name": name})},
            {"role": "user", "content": "It is Jose Nunez."},
        )
        store.index("a", [Entry(f"of {name}"), Entry("silt", name=name), Entry("mud")])
        report = store.forget(text=unicodedata.normalize(asked, f"{NAME} \u1ec7"))
        assert (report.messages, report.entries, report.erased, report.near) == (2, 2, True, ())
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert name.encode() not in held


def test_a_report_names_the_near_spellings_that_stay_and_near_takes_them(tmp_path) -> None:
    with MemoryStore.open(tmp_path) as store, Session.open(None, "a", memory=store) as session:
        session.append(
            {"role": "user", "content": "the Blue  Gate"},
            {"role": "user", "content": "the blue gate and the BLUE GATE"},
            {"role": "user", "content": "the blue%20gate"},
        )
        store.index("b", [Entry("a blue\ngate"), Entry("a bluegate")])
        near = ("Blue  Gate", "blue\ngate", "blue%20gate")
        expected = store.forget(text="blue gate", dry_run=True)
        assert (expected.messages, expected.near) == (1, near), "BLUE GATE leaves with its message"
        assert store.forget(text="blue gate").near == near
        assert store.forget(text="blue gate", session_id="b").near == ("blue\ngate",)
        report = store.forget(text="blue gate", near=True)
        assert (report.messages, report.entries, report.near, report.erased) == (2, 1, (), True)
        assert [each.content for each in store.entries("b").entries] == ["a bluegate"]
        with pytest.raises(ConfigError, match="near needs a text"):
            store.forget(session_id="a", near=True)


def test_what_cannot_be_forgotten_is_kept_whoever_has_it(tmp_path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for name, namespace in (("of Ann", None), ("one", "team Ann"), ("gone Ann", None)):
            Session.open(None, name, memory=store, namespace=namespace).close()
            store.index(name, [Entry("silt", role="Ann's aunt")])
        store.put_facts("one", [(None, "Ann's key", "active", "{}"), (None, "progress", "note", '"Ann"')])
        store.put_facts("one", [(None, "key", "active", '{"content": "of Ann"}')])
        store.delete_session("gone Ann")
        report = store.forget(text="Ann")
        assert report.kept == ("Ann's aunt", "Ann's key", "gone Ann", "of Ann", "progress", "team Ann")
        assert (report.facts, report.erased, report.remaining) == (1, False, ("identifiers",))
        assert store.forget(text="Ann", session_id="of Ann").kept == ("Ann's aunt", "of Ann")
        assert store.forget(text="Bob").kept == ()


@given(st.sampled_from(["NFC", "NFD", "as it is"]), texts(min_size=1), st.booleans(), st.booleans())
def test_the_expression_matches_every_spelling_that_is_meant(form, sought, ascii_only, near) -> None:
    said = sought if form == "as it is" else unicodedata.normalize(form, sought)
    text = nested(f"<{said}>", 1, ascii_only=ascii_only)
    with SimpleMemoryStore() as store, Session.open(None, "a", memory=store) as session:
        session.append({"role": "user", "content": text})
        wanted = Sought(sought, near=near)
        if wanted.is_in(store.open_log("a").read(0, 1)[0].raw):
            assert Holding(store._native).messages("a", wanted) == [0]


pieces = texts().filter(bool)


def layered(text: str, levels: list[bool]) -> str:
    """*text* inside a level of JSON for each of *levels*, with ASCII escapes where it is true."""
    for is_ascii in levels:
        text = json.dumps({"said": f"before {text} behind"}, ensure_ascii=is_ascii)
    return text


def criteria(text: str) -> Criteria:
    return Criteria.of({"text": text})


def opened(store: SimpleMemoryStore | MemoryStore) -> Session:
    return Session.open(None, "a", memory=store, policy=ThresholdCompactor(), model=None)


def rows(store: SimpleMemoryStore | MemoryStore) -> list[LogRow]:
    log = store.open_log("a")
    return log.read(0, log.state().next_seq)


@given(pieces, st.lists(st.booleans(), max_size=3), pieces)
@example("silt", [True, True], "\\u0073ilt")
@example("é", [True], "\\u00e9")
@example("...", [], "a")
@example("two parts", [], "parts two")
def test_what_holds_a_text_is_among_what_may_hold_it(sought, levels, other):
    said = layered(sought, levels)
    with SimpleMemoryStore() as store, opened(store) as session:
        session.append(
            {"role": "user", "content": said},
            {"role": "user", "content": other},
            call("one", text=said),
            result("one", said),
            {"role": "user", "content": [{"type": "text", "text": each} for each in sought.split(" ")]},
        )
        found = [Entry(each, (at, at + 1)) for at, each in enumerate((said, other, said + other))]
        store.index("a", found)
        store.index("a", [Entry("nothing of it", name=sought.replace("\0", "") or None)])
        holding, wanted = Holding(store._native), criteria(sought)
        meant = [each.entry_id for each in store.entries("a").entries if wanted.entry(each)]
        assert set(meant) <= {each.entry_id for each in holding.entries("a", Sought(sought)).entries}
        seqs = [row.seq for row in rows(store) if wanted.message(row)]
        assert set(seqs) <= set(holding.messages("a", Sought(sought)))


@pytest.fixture
def store(tmp_path) -> Iterator[MemoryStore]:
    with MemoryStore.open(tmp_path) as store:
        yield store


def test_a_hostile_text_is_found(store):
    with opened(store) as session:
        for sought in hostile():
            session.append({"role": "user", "content": f"a {sought} b"})
    store.index("a", [Entry(f"a {sought} b") for sought in hostile()])
    holding = Holding(store._native)
    for place, sought in enumerate(hostile()):
        assert place in holding.messages("a", Sought(sought)), sought
        assert f"a {sought} b" in [each.content for each in holding.entries("a", Sought(sought)).entries], (
            sought
        )


def test_of_many_rows_few_are_looked_at_closely(store):
    with opened(store) as session:
        session.append(*({"role": "user", "content": f"message {number}."} for number in range(2_000)))
    store.index("a", [Entry(f"entry {number}.", (number, number + 1)) for number in range(2_000)])
    holding = Holding(store._native)
    assert [each.content for each in holding.entries("a", Sought("entry 1234.")).entries] == ["entry 1234."]
    assert holding.messages("a", Sought("1234.")) == [1234]
    assert holding.messages("a", Sought("x1234x")) == []
    assert holding.came_from("a", [7, 3]) == [4, 8]
    assert holding.came_from("a", []) == holding.came_from("nobody", [1]) == []
    assert holding.messages("nobody", Sought("a")) == []
    assert holding.entries("nobody", Sought("a")).entries == ()
    assert store.forget(text="entry 1234.").entries == 1
    assert store.forget(session_id="a", start=3, end=5).messages == 2
