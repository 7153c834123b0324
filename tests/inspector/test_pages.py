"""The pages show the command line's figures, every text as text, and nothing that changes a store."""

import hashlib
import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from starlette.testclient import TestClient

from conversations import exchange, small, turns, user
from inspecting import figure, figures, inspected, make_store, shown, told
from siltstone import Entry, MemoryStore, Session, SimpleMemoryStore
from siltstone.figures import growth, keeping
from siltstone.inspector.format import marked
from siltstone.memory.hits import Passage
from siltstone.memory.log import NewMessage
from siltstone.testing import ScriptedModel


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[TestClient]:
    with inspected(place) as (client, _):
        yield client


def test_the_list_of_sessions_has_the_figures_of_the_command(place: Path, client: TestClient) -> None:
    page = shown(client, "/?sort=name&up=1")
    for each in told("sessions", place)["sessions"]:
        (row,) = re.findall(
            rf'<tr class="item" data-session="{each["session_id"]}">.*?</tr>', page, re.DOTALL
        )
        for name in ("messages", "tokens", "entries", "compactions"):
            assert figure(row, name) == each[name]
        assert each["title"] in row
        held = told("context", place, "-s", each["session_id"])["total_tokens"]
        assert figure(row, "in_context") == held
        share = min(1, held / each["tokens"])
        assert f'<rect class="fill" width="{100 * share:.3f}%"' in row
        assert f'<span class="under">{share:.0%}</span>' in row


def test_the_list_tells_what_is_in_context_whatever_a_session_went_through(tmp_path: Path) -> None:
    call, result = exchange(0, "line of the output\n" * 400)
    for name, policy in (("blocks", small()), ("bytes", small(estimator="bytes/4"))):
        with Session.open(tmp_path, name, policy=policy, model=ScriptedModel()) as session:
            session.append(user("look through all of it"), call)
            session.offload(result, 64)
            for turn in turns(40):
                session.append(*turn)
                session.prepare()
            session.undo_compaction()
    with MemoryStore.open(tmp_path) as store:
        store.forget(session_id="blocks", start=2, end=5)
        last = len(Session.open(None, "bytes", memory=store, policy=None).log())
        store.forget(session_id="bytes", start=last - 1, end=last)
    with inspected(tmp_path) as (client, _):
        for _ in range(2):  # from rows, and as it was kept
            page = shown(client, "/?sort=name&up=1")
            held = [told("context", tmp_path, "-s", name)["total_tokens"] for name in ("blocks", "bytes")]
            assert figures(page, "in_context") == held
        assert figure(shown(client, "/session?session=blocks"), "total_tokens") == held[0]


def test_the_list_is_filtered_sorted_and_paged(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for number in range(120):
            with store.session(f"chat-{number:03}", namespace="even" if number % 2 == 0 else "") as session:
                session.append(*[{"role": "user", "content": f"Request {number}"}] * (number % 7 + 1))
    with inspected(tmp_path) as (client, _):
        names = lambda page: re.findall(r'data-session="([^"]+)"', shown(client, page))  # noqa: E731
        assert names("/?sort=name&up=1") == [f"chat-{number:03}" for number in range(50)]
        assert names("/?sort=name&up=1&start=100") == [f"chat-{number:03}" for number in range(100, 120)]
        assert names("/?sort=name&up=1&start=99999")[-1] == "chat-119"
        assert set(names("/?namespace=even&sort=name")) <= {
            f"chat-{number:03}" for number in range(0, 120, 2)
        }
        assert names("/?words=REQUEST+77") == ["chat-077"]
        assert figure(shown(client, "/?namespace=even"), "found") == 60
        counts = figures(shown(client, "/?sort=messages"), "messages")
        assert counts == sorted(counts, reverse=True)
        assert "No session has these words" in shown(client, "/?words=nothing+like+it")


def test_the_timeline_has_the_figures_of_three_commands(place: Path, client: TestClient) -> None:
    page = shown(client, "/session?session=work&window=100000")
    context = told("context", place, "-s", "work", "--window", 100_000)
    for name in ("total_tokens", "message_count", "messages_seen", "context_window", "remaining_tokens"):
        assert figure(page, name) == context[name]
    for name, tokens in context["categories"].items():
        assert figure(page, f"category:{name}") == tokens
    timeline = told("timeline", place, "-s", "work")
    rows = re.findall(r'data-start="(\d+)" data-end="(\d+)"', page)
    assert [(int(start), int(end)) for start, end in rows] == [
        (turn["start"], turn["end"]) for turn in timeline["turns"][::-1]
    ]
    assert figures(page, "said") == [turn["tokens"] for turn in timeline["turns"][::-1]]
    assert figures(page, "context") == [turn["context"] for turn in timeline["turns"][::-1]]
    records = told("compactions", place, "-s", "work", "--undone")["compactions"][::-1]
    assert figures(page, "tokens_before") == [record["tokens_before"] for record in records]
    assert figures(page, "tokens_after") == [record["tokens_after"] for record in records]
    assert page.count('<a class="mark') == len(timeline["compactions"])


def test_a_compaction_has_the_figures_of_the_command(place: Path, client: TestClient) -> None:
    for record in told("compactions", place, "-s", "work")["compactions"]:
        known = told("compactions", place, "-s", "work", "--diff", record["id"])
        page = shown(client, f"/compaction?session=work&id={record['id']}")
        for name in ("tokens_before", "tokens_after", "model_calls", "input_tokens", "output_tokens"):
            assert figure(page, name) == known[name]
        assert figure(page, "kept") == len(known["kept"])
        assert figure(page, "gone") == len(known["summarised"])
        assert figure(page, "archived") == len(known["archived"])
        assert figures(page, "summarised_earlier") == [known["summarised_earlier"]] * bool(
            known["summarised_earlier"]
        )
        rules = re.findall(r'data-seq="(\d+)" data-fate="\w+" data-rule="(\w*)"', page)
        assert {int(seq): rule for seq, rule in rules} == {
            each["seq"]: each["rule"] for each in [*known["kept"], *known["summarised"]]
        }
        assert {rule for _, rule in rules} >= {"older", "recent"}
        assert figure(page, "seconds") == known["seconds"]
        rows = re.findall(r'data-seq="(\d+)" data-fate="(\w+)"', page)
        assert {int(seq) for seq, kind in rows if kind == "kept"} == {each["seq"] for each in known["kept"]}
        assert {int(seq) for seq, kind in rows if kind != "kept"} == {
            each["seq"] for each in known["summarised"]
        }


def test_the_log_has_every_message_and_where_it_is(place: Path, client: TestClient) -> None:
    known = told("show", place, "-s", "work")["messages"]
    page = shown(client, "/log?session=work&start=0")
    assert [int(seq) for seq in re.findall(r'id="m(\d+)"', page)] == [each["seq"] for each in known[:100]]
    assert figure(page, "messages") == len(known)
    with Session.open(place, "work", preset=None) as session:
        view = session.history()
    assert figure(shown(client, "/log?session=work&view=now"), "in_view") == len(view)
    assert page.count("summarised by") == sum(
        len(told("compactions", place, "-s", "work", "--diff", record["id"])["summarised"])
        for record in told("compactions", place, "-s", "work")["compactions"]
    )
    one = shown(client, "/message?session=work&seq=1")
    assert "Message" in one
    assert "There is no such" not in one


def test_a_view_is_that_of_its_compaction(place: Path, client: TestClient) -> None:
    with Session.open(place, "work", preset=None) as session:
        sizes = [len(session.view_at(n)) for n in range(3)]
    for n, length in enumerate(sizes):
        assert figure(shown(client, f"/log?session=work&view={n}"), "in_view") == length
    shown(client, "/log?session=work&view=9", 404)


def test_a_search_has_the_scores_of_the_command(place: Path, client: TestClient) -> None:
    for ranker in ("lexical", "cosine", "hybrid"):
        known = told(
            "search", place, "-s", "work", "question", "--limit", 3, "--ranker", ranker, "--explain"
        )["hits"]
        page = shown(client, f"/search?session=work&q=question&limit=3&ranker={ranker}")
        scores = [hit["score"] for hit in known]
        assert figures(page, "score") == pytest.approx(scores, abs=1e-6)  # of hybrid they age
        for term in known[0]["explain"].get("terms", ()):
            assert f">{term['term']}</th>" in page
    assert "No text of this memory" in shown(client, "/search?session=work&q=zzzzz")
    shown(client, "/search?session=work&q=question&ranker=dense", 404)


def test_the_log_is_searched_and_a_message_says_what_became_of_it(place: Path, client: TestClient) -> None:
    known = told("log", place, "-s", "work", "--grep", "question 0")["messages"]
    page = shown(client, "/log?session=work&grep=question+0")
    assert known
    assert all(f"/message?session=work&amp;seq={each['message']}" in page for each in known)
    shown(client, "/log?session=work&grep=(", 404)
    assert "Kept as it was by the rule “system”" in shown(client, "/message?session=work&seq=0")
    first = shown(client, "/message?session=work&seq=1")
    record = told("compactions", place, "-s", "work")["compactions"][0]
    assert re.search(rf"Summarised .*compaction.*>{record['id']}</a>", first)
    assert "Now it is summarised." in first
    (entry, *_) = told("search", place, "-s", "work", "question 0", "--limit", 1)["hits"]
    page = shown(client, f"/message?session=work&seq={entry['source_range'][0]}")
    assert f"A search finds it as entry {entry['entry_id']}" in page
    newest = told("show", place, "-s", "work")["messages"][-1]["seq"]
    assert "A search finds it: it is in context." in shown(client, f"/message?session=work&seq={newest}")


def test_the_block_that_recall_would_place_is_that_of_the_session(place: Path, client: TestClient) -> None:
    with Session.open(place, "work", preset=None, recall=True) as session:
        block = session.recall("What of question 3?")
    page = html.unescape(shown(client, "/search?session=work&q=What+of+question+3%3F"))
    assert block
    assert [line for line in block.splitlines() if line not in page] == []
    assert "Nothing would be placed" in shown(client, "/search?session=work&q=zzzzz")


def test_health_has_the_figures_of_the_command(place: Path, client: TestClient) -> None:
    known = told("doctor", place)
    page = shown(client, "/health?check=1")
    for name in ("sessions", "messages", "entries", "compactions", "quarantined", "text_bytes"):
        assert figure(page, name) == known[name]
    for name in ("messages", "bytes"):
        assert figure(page, f"growth_{name}") == sum(day[name] for day in known["days"]) > 0
    assert figure(page, "growth_messages") == known["messages"]
    for name in ("expiring", "expired"):
        assert figure(page, name) == known["keeping"][name]
    assert "Nothing is wrong" in page
    assert "Check now" in shown(client, "/health")


def test_damage_is_shown_where_it_is_and_does_not_end_the_page(tmp_path: Path) -> None:
    import sqlite3

    place = make_store(tmp_path)
    with sqlite3.connect(tmp_path / "memory" / "memory.sqlite3") as file:
        file.execute("UPDATE message SET raw = raw || ' ' WHERE id & 0xffffffff = 1")
    file.close()
    with inspected(place) as (client, _):
        page = shown(client, "/log?session=work&start=0")
        assert 'id="m1"' in page
        assert 'id="m2"' in page
        assert "checksum" in page
        found = shown(client, "/health?check=1")
        assert "checksum" in found
        assert "doctor" in found


@pytest.mark.parametrize(
    ("page", "status", "said"),
    [
        ("/session?session=nobody", 404, "has no session"),
        ("/session", 404, "names no session"),
        ("/compaction?session=work&id=99", 404, "has no compaction 99"),
        ("/compaction?session=work&id=x", 404, "must be a number"),
        ("/log?session=work&start=" + "9" * 40, 404, "must be a number"),
        ("/message?session=work&seq=99999", 404, "has no message"),
        ("/nowhere", 404, "no such page"),
        ("/session?session=" + "x" * 2000, 500, "session"),
        ("/session?session=%00", 404, "no session"),
    ],
)
def test_a_bad_address_is_told_in_a_sentence(client: TestClient, page: str, status: int, said: str) -> None:
    text = shown(client, page, status)
    assert said in text
    assert "Traceback" not in text
    assert "All sessions" in text


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    MemoryStore.open(tmp_path).close()
    with inspected(tmp_path) as (client, _):
        assert "has no session yet" in shown(client, "/")
        shown(client, "/health?check=1")


def test_a_session_that_is_deleted_while_it_is_shown_is_a_page_that_says_so(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    with inspected(place) as (client, _):
        shown(client, "/session?session=work")
        with MemoryStore.open(place) as store:
            store.delete_session("work")
        for page in ("session", "log", "search", "facts"):
            assert "All sessions" in shown(client, f"/{page}?session=work", 404)
        assert "other" in shown(client, "/")


def test_looking_at_every_page_changes_no_byte_and_makes_nothing(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    assert told("sessions", place)["sessions"]  # whoever opened it last has closed it well

    def state() -> dict[str, str]:
        files = (path for path in place.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.stat().st_size
        }

    before = state()
    with inspected(place) as (client, _):
        for page in (
            "/", "/session?session=work", "/compaction?session=work&id=1", "/log?session=work",
            "/log?session=work&view=now",
            "/message?session=work&seq=0", "/search?session=work&q=question", "/facts?session=work&history=1",
            "/health?check=1", "/session?session=nobody", "/log?session=nobody", "/facts?session=nobody",
        ):  # fmt: skip
            client.get(page)
        assert state() == before
    assert state() == before
    assert [each["session_id"] for each in told("sessions", place)["sessions"]] == ["work", "other"]


def test_texts_of_every_field_are_text(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}'
    with Session.open(tmp_path, evil, namespace=evil, model=ScriptedModel([evil])) as session:
        session.append({"role": "user", "content": evil, "name": "x"})
        session.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": evil, "type": "function", "function": {"name": evil, "arguments": evil}}
                ],
            },
            {"role": "tool", "tool_call_id": evil, "content": evil},
        )
        for number in range(12):
            session.append(
                {"role": "user", "content": f"{evil} {number}"}, {"role": "assistant", "content": evil}
            )
        session.compact()
        session.save(evil)
    from urllib.parse import quote

    name = quote(evil, safe="")
    with inspected(tmp_path) as (client, _):
        for page in (
            "/", f"/session?session={name}", f"/compaction?session={name}&id=1",
            f"/log?session={name}&start=0", f"/log?session={name}&view=now",
            f"/message?session={name}&seq=1", f"/search?session={name}&q={name}",
            f"/facts?session={name}&q={name}", "/health", f"/?words={name}&namespace={name}",
            f"/session?session=no{name}",
        ):  # fmt: skip
            text = client.get(page).text
            assert text.count("<script") == 1, page
            assert "<img" not in text, page


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_each_message_counts_on_its_day_however_many_there_are() -> None:
    store = SimpleMemoryStore()
    for name, ages in (("a", [40, 29, 29, 3, 0]), ("b", [0] * 1_200), ("c", [45])):
        log, raw = store.open_log(name), '{"role":"user","content":"ä"}'
        messages = [
            NewMessage(raw, "user", "any", "original", 1, int((NOW - timedelta(days=age)).timestamp() * 1000))
            for age in ages
        ]
        version = log.version()
        assert version is not None
        log.append(messages, expected=version, clock="", write_id=1)
    days = growth(store, NOW.date())
    assert (len(days), days[0].day, days[-1].day) == (30, NOW.date() - timedelta(days=29), NOW.date())
    assert {day.day: day.messages for day in days if day.messages} == {
        NOW.date() - timedelta(days=29): 2, NOW.date() - timedelta(days=3): 1, NOW.date(): 1_201,
    }  # fmt: skip
    assert all(day.bytes == day.messages * len('{"role":"user","content":"ä"}'.encode()) for day in days)


def test_entries_that_expire_are_told_apart_from_those_that_stay() -> None:
    store = SimpleMemoryStore()
    assert keeping(store, NOW) == (found := keeping(store, NOW))
    assert (found.entries, found.next_at, found.oldest_at) == (0, None, None)
    said = NOW - timedelta(days=2)
    ttls = [None, timedelta(days=1), timedelta(days=3), timedelta(days=5)]
    store.index("s", [Entry(f"silt {n}", created_at=said, ttl=ttl) for n, ttl in enumerate(ttls)])
    found = keeping(store, NOW)
    assert (found.entries, found.expiring, found.expired) == (4, 3, 1)
    assert (found.next_at, found.oldest_at) == (said + timedelta(days=3), said)


EVIL = '<mark>walrus</mark> "><script>alert(1)</script> Walruses & a \u202ewalrus\u202c <b>'


def texts(page: str) -> list[str]:
    (hits,) = re.findall(r'<section id="hits".*?</section>', page, re.DOTALL)
    return re.findall(r"<pre>(.*?)</pre>", hits, re.DOTALL)


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_the_words_of_the_query_are_marked_and_nothing_else_is_markup(tmp_path: Path, ranker: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry(EVIL), Entry("silt")])
    with inspected(tmp_path) as (client, _):
        (text,) = texts(shown(client, f"/search?session=s&q=walrus&ranker={ranker}"))
    assert re.findall(r"<mark>(.*?)</mark>", text) == ["walrus", "Walruses", "walrus"]
    assert "&lt;mark&gt;<mark>walrus</mark>&lt;/mark&gt;" in text
    bare = re.sub("</?mark>", "", text)
    assert "<" not in bare
    assert html.unescape(bare) == EVIL.replace("\u202e", "«U+202E»").replace("\u202c", "«U+202C»")


@given(st.text(), st.lists(st.integers(0, 30), max_size=6, unique=True))
def test_marks_add_nothing_but_marks(text: str, places: list[int]) -> None:
    ends = sorted(place for place in places if place <= len(text))
    marks = tuple(zip(ends[::2], ends[1::2], strict=False))
    page = str(marked(Passage(text, 0, len(text), marks)))
    assert page.count("<mark>") == page.count("</mark>") == len(marks)
    assert re.sub("</?mark>", "", page) == str(marked(Passage(text, 0, len(text), ())))
    assert "<" not in re.sub("</?mark>", "", page)
