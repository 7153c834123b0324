"""Do the examples of README and docs/ run, and do their links lead somewhere?"""

import ast
import asyncio
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, product, takewhile
from pathlib import Path
from typing import Any

import pytest

from servers.provider import Said, provider

CHECKOUT = Path(__file__).parent.parent
PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
RUN = [page for page in PAGES if page.name == "README.md" or page.is_relative_to(CHECKOUT / "docs")]
PRINTED = {"README.md": 2, "docs/tutorial.md": 9}  #: pages that show what their examples print; how often
ANSWERS = ("Noted.", "Noted. " + "All is well. " * 20)  #: a short model and a long one
MOST_NOT_RUN = 3  #: examples of the whole project that may be excused; an example that cannot run is prose

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<word>\w*)")
_EXCUSE = re.compile(r"<!-- not run: \S.* -->")
_NEEDS = re.compile(
    r"^<!-- needs: (?P<module>\w+) -->$", re.MULTILINE
)  # a framework, in whose environment the page is run
_DATABASE = "of_a_page"  #: where the examples of a page keep their sessions
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<inline>[^)\s]+)\)|^\[[^\]]+\]: (?P<reference>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its word, its text, the line its text begins on, and whether it is excused."""

    word: str
    text: str
    line: int
    excused: bool = False


def blocks(markdown: str) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        closing = re.compile(rf"^ *{opening['ticks']}\s*$")
        end = next((n for n in range(at + 1, len(lines)) if closing.match(lines[n])), len(lines))
        indent = len(opening["indent"])
        text = "\n".join(line[indent:] for line in lines[at + 1 : end])
        before = next((line for line in reversed(lines[:at]) if line.strip()), "")
        yield Block(opening["word"], text, at + 2, excused=bool(_EXCUSE.search(before)))
        at = end + 1


def run(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    """Runs *block* as if it stood alone in the file *page*: a traceback names the page and its line."""
    source = "\n" * (block.line - 1) + block.text
    compiled = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, namespace)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def module(page: Path) -> str:
    """The examples of *page* as one module, each line where the page has it, without the excused ones."""
    lines: list[str] = []
    for block in blocks(page.read_text("utf-8")):
        if block.word == "python" and not block.excused:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join([*lines, ""])


def needed(page: Path) -> list[str]:
    """The frameworks that the examples of *page* need: nox has an environment for each."""
    return [found["module"] for found in _NEEDS.finditer(page.read_text("utf-8"))]


def prose(markdown: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", markdown, flags=re.MULTILINE | re.DOTALL)


def links(markdown: str) -> list[str]:
    """Where the links of a page lead; what only looks like one in inline code is none."""
    found = _LINK.finditer(re.sub(r"`[^`\n]*`", "code", prose(markdown)))
    return [match["inline"] or match["reference"] for match in found]


def anchors(markdown: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def where(page: Path) -> str:
    return page.relative_to(CHECKOUT).as_posix()


@pytest.mark.parametrize("page", [page for page in RUN if where(page) not in PRINTED], ids=where)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, a_provider, request):
    for framework in needed(page):
        pytest.importorskip(framework, reason=f"{framework} is not installed; `make test-adapters` has it")
    monkeypatch.chdir(tmp_path)
    if '"DATABASE_URL"' in page.read_text("utf-8"):  # a server of the tests, and a database of the page's own
        server = request.getfixturevalue("newest_postgres")
        server.rows(f"CREATE DATABASE {_DATABASE}")
        request.addfinalizer(lambda: server.rows(f"DROP DATABASE {_DATABASE} WITH (FORCE)"))
        monkeypatch.setenv("DATABASE_URL", server.url(database=_DATABASE))
    for _ in range(2):  # as after a restart
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for block in blocks(page.read_text("utf-8")):
            if block.word == "python" and not block.excused:
                run(block, page, namespace)


def checked(sources: dict[str, str], place: Path) -> str:
    """What mypy says of modules, in its strict mode. `make lint` has left what it learned of the package."""
    mypy = pytest.importorskip("mypy.api", reason="mypy is not installed; it comes with the group lint")
    for name, source in sources.items():
        (place / f"{name}.py").write_text(source, "utf-8")
    options = [f"--config-file={CHECKOUT / 'pyproject.toml'}", f"--cache-dir={CHECKOUT / '.mypy_cache'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(CHECKOUT)
        told, error, _ = mypy.run([*options, *(str(place / f"{name}.py") for name in sources)])
    return f"{told}{error}".replace(f"{place}{os.sep}", "")


def test_the_examples_of_every_page_are_typed(tmp_path):
    """As somebody would check who copies them."""
    names = {where(page): re.sub(r"\W", "_", where(page)) for page in RUN}
    sources = {names[where(page)]: module(page) for page in RUN if not needed(page)}
    told = checked({name: source for name, source in sources.items() if source.strip()}, tmp_path)
    assert told.startswith("Success: "), told


@pytest.mark.parametrize(("page", "answer"), [*product(PRINTED, ANSWERS[:1]), ("README.md", ANSWERS[1])])
def test_an_example_prints_what_the_page_shows_below_it(
    page, answer, tmp_path, monkeypatch, capsys, a_provider
):
    """The first text is of the first run, and the last text of all later runs in the same folder."""
    monkeypatch.chdir(tmp_path)
    a_provider.model = partial(clerk, answer=answer)
    found = list(blocks((CHECKOUT / page).read_text("utf-8")))
    shown = 0
    for number in range(PRINTED[page]):
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for place, example in enumerate(found):
            if example.word != "python" or example.excused:
                continue
            run(example, Path(page), namespace)
            printed = capsys.readouterr().out
            below = [*takewhile(lambda block: block.word == "text", found[place + 1 :])]
            if below:
                assert printed == f"{below[0 if number == 0 else -1].text}\n"
                shown += 1
    assert shown


_CALLS = count()  #: a provider gives no id twice


def clerk(body: dict[str, Any], answer: str = ANSWERS[0]) -> Said:
    """Takes notes, searches its memory when it is asked something, and repeats what that found."""
    last = body["messages"][-1]
    content, role = last["content"], last["role"]
    if isinstance(content, list):
        results = [block["content"] for block in content if block["type"] == "tool_result"]
        content, role = (results[0], "tool") if results else (content[-1]["text"], role)
    name = str(next(_CALLS))
    if role == "tool":
        return Said(name, f"You said: {json.loads(content)[0]['content']}")
    if "?" in content:
        return Said(name, "", calls=(("memory_search", {"query": content, "limit": 1}),))
    return Said(name, answer)


@pytest.fixture
def a_provider(monkeypatch):
    """What the SDKs of the examples reach: a server that refuses what the providers refuse."""
    with provider() as server:
        server.model = clerk
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "none")
        yield server
        assert server.refused == []


def test_the_picture_of_the_readme_is_what_its_script_draws():
    script = CHECKOUT / "scripts" / "picture.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


def test_every_page_says_how_it_is_installed_today_and_one_line_says_how_after_the_release():
    script = runpy.run_path(str(CHECKOUT / "scripts" / "install_commands.py"))
    assert script["main"](check=True) == 0
    found = script["_COMMAND"].finditer("\n".join(page.read_text("utf-8") for page in RUN))
    said = {each[0] for each in found}
    script["command"].__globals__["ON_INDEX"] = True
    released = {script["_COMMAND"].sub(script["command"], each) for each in said}
    assert len(said) == len(released) > 10
    assert [each for each in released if "checkout" in each or "siltstone" not in each] == []


def test_there_are_examples_and_few_are_excused():
    examples = [block for page in RUN for block in blocks(page.read_text("utf-8")) if block.word == "python"]
    excused = [block for block in examples if block.excused]
    assert len(excused) <= MOST_NOT_RUN
    assert len(examples) > len(excused)


@pytest.mark.parametrize("page", PAGES, ids=where)
def test_every_link_inside_the_project_leads_somewhere(page):
    if (CHECKOUT / "PKG-INFO").exists():
        pytest.skip("a source distribution has no records and no pictures")
    dead = []
    for target in links(page.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("contents", ["docs/index.md", "llms.txt"])
def test_every_page_is_reached_from_each_table_of_contents(contents):
    place = CHECKOUT / contents
    reached = {(place.parent / link.partition("#")[0]).resolve() for link in links(place.read_text("utf-8"))}
    assert [where(page) for page in RUN if page.parent != CHECKOUT and page not in {*reached, place}] == []
    assert [path for path in reached if not path.exists()] == []
