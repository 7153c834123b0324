"""Base models: what is sent to an endpoint that completes texts, and how its answers are read."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from siltstone import ConfigError, ModelError, Session, presets
from siltstone.cli.app import app
from siltstone.llm import CompletionRequest
from siltstone.models import CompletionModel

ENDPOINTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "/api/generate": (
        ("options", "num_predict"),
        {"response": "I sailed.", "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3},
    ),
    "/completion": (
        ("n_predict",),
        {"content": "I sailed.", "stop_type": "eos", "tokens_evaluated": 7, "tokens_predicted": 3},
    ),
    "/v1/completions": (
        ("max_tokens",),
        {
            "choices": [{"text": "I sailed.", "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        },
    ),
}


class Endpoint(BaseHTTPRequestHandler):
    """A server of base models, which refuses a temperature, and what is not one text with a limit."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names, answer = ENDPOINTS[self.path]
        limit: Any = body
        for name in names:
            limit = limit[name]
        assert body["stream"] is False
        assert isinstance(body["prompt"], str)
        assert limit > 0
        self.server.bodies.append(body)  # type: ignore[attr-defined]
        is_refused = '"temperature"' in json.dumps(body)
        text = json.dumps({"error": "temperature is not supported"} if is_refused else answer).encode()
        self.send_response(400 if is_refused else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def base_server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        server.bodies = []  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("end", ENDPOINTS)
def test_a_base_model_continues_the_documented_prompt(end: str, base_server: Any, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{base_server.server_port}{end}"
    model = CompletionModel(url, "base", seed=1)
    made = presets.waterfall(immediate_window=4, recent_window=4, temperature=0.3, stop=("\n\n", "\n#"))
    with Session.open(tmp_path, "s", preset=made, model=model, context_window=64_000) as session:
        session.append({"role": "system", "content": "Be brief."})
        session.append(*({"role": "user", "content": f"Entry {n}."} for n in range(8)))
        assert not session.prepare().outcomes, "a system prompt is no memory"
        assert session.memory_status().next_run == 9
        session.append({"role": "user", "content": "Entry 8."})
        session.prepare()
        assert "I sailed." in session.history()[1]["content"]
        assert session.memory_status().line == "[Memory: OK]"
        assert session.usage.input_tokens == 7
    refused, asked = base_server.bodies
    settings = asked.get("options", asked)
    assert refused.get("options", refused)["temperature"] == 0.3
    assert (settings["stop"], settings["seed"]) == (["\n\n", "\n#"], 1)
    assert asked["prompt"].startswith("# Memories:\nEntry 0.\n")
    assert asked["prompt"].endswith("\n> ")
    with Session.open(tmp_path, "s") as session:
        session.append(*({"role": "user", "content": f"Entry {n}."} for n in range(9, 13)))
    command = ["compact-memories", str(tmp_path), "-s", "s"]
    assert CliRunner().invoke(app, command).exit_code == 2, "no lines are quoted beside what a model wrote"
    assert CliRunner().invoke(app, [*command, "--model", f"{url}#base"]).exit_code == 0
    assert base_server.bodies[-1].get("model", "base") == "base"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1", "127.0.0.1:1/completion", "file:///completion", "http://x/v1/chat/completions"],
)
def test_an_address_of_no_known_endpoint_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="ends in one of /api/generate, /completion, /v1/completions"):
        CompletionModel(url)


@pytest.mark.parametrize("answer", [{}, [], {"content": None}, {"choices": []}])
def test_an_answer_that_is_no_completion_is_refused(
    answer: Any, base_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENDPOINTS, "/completion", (("n_predict",), answer))
    model = CompletionModel(f"http://127.0.0.1:{base_server.server_port}/completion")
    with pytest.raises(ModelError, match="gave no completion"):
        model(CompletionRequest([{"role": "user", "content": "x"}], 10))
