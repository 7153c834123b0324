"""The examples of the page on embedders that need a model, a server or an extra, each on a double."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from embedders import installed
from siltstone import Entry, MemoryStore
from siltstone.embedding import MiniLMEmbedder
from test_docs import Block, blocks, run

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "search-by-meaning.md"


def example(word: str) -> Block:
    """The one block that is excused from running and has *word*."""
    (found,) = [each for each in blocks(PAGE.read_text("utf-8")) if each.excused and word in each.text]
    return found


def search_by(embedder: Any, path: Path) -> None:
    with MemoryStore.open(path, embedder=embedder) as store:
        store.index("a", [Entry("silt settles", (0, 1)), Entry("the kettle is on", (9, 10))])
        assert store.flush(60)
        (hit, *_) = store.search("a", "silt", explain=True)
        assert hit.content == "silt settles"
        assert hit.explain is not None
        assert hit.explain["cosine"] > 0


def test_minilm_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(MiniLMEmbedder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run(example("MiniLMEmbedder()"), PAGE, names)
    with names["store"] as store:
        store.index("a", [Entry("The cat sat on the mat.", (0, 1)), Entry("Taxes are due.", (9, 10))])
        assert store.flush(60)
        assert store.search("a", "a feline on a rug")[0].content == "The cat sat on the mat."


def test_sentence_transformers_are_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SentenceTransformer:
        def __init__(self, name: str) -> None:
            assert name == "BAAI/bge-small-en-v1.5"

        def encode(self, sentences: list[str]) -> Any:
            rows = np.full((len(sentences), 384), 0.01, dtype=np.float32)
            rows[:, 0] = ["silt" in each for each in sentences]
            return rows

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    names: dict[str, Any] = {}
    run(example("SentenceTransformer"), PAGE, names)
    search_by(names["embedder"], tmp_path)


class Handler(BaseHTTPRequestHandler):
    """Embeds as OpenAI's protocol has it: POST /v1/embeddings."""

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        right = self.path == "/v1/embeddings" and self.headers["Authorization"] == "Bearer a key"
        rows = [[float("silt" in text), *[0.01] * 1535] for text in given["input"]]
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
        answer = json.dumps({"object": "list", "model": given["model"], "data": data}).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/v1"
        httpd.shutdown()
        thread.join()


def test_a_server_that_speaks_openais_protocol_is_a_function(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server)
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    names: dict[str, Any] = {}
    run(example("urlopen"), PAGE, names)
    search_by(names["embedder"], tmp_path)
