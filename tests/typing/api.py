"""Uses of the public names with their types. mypy reads this file in strict mode; it is never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import siltstone
from siltstone import embedding, events
from siltstone.compaction import Compactor
from siltstone.engine import Compacted, Failed, Plan, Skipped
from siltstone.evaluation import Dataset, Report, evaluate
from siltstone.hooks import Guidance
from siltstone.knowledge import Fact
from siltstone.llm import UsageRecord
from siltstone.memory import Decay

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    vector: NDArray[np.float32] = embedding.embed("one text")
    rows: NDArray[np.float32] = embedding.embed_batch(["one text", "another"], hash_rule="poly31")
    indptr, indices, values = embedding.embed_sparse(["one text"])
    starts: NDArray[np.int64] = indptr
    buckets: NDArray[np.int32] = indices
    weights: NDArray[np.float32] = values

assert_type(siltstone.__version__, str)
assert_type(siltstone.estimate_tokens("one text"), int)
assert_type(siltstone.estimate_tokens({"role": "user", "content": "one"}, rule="chars/3"), int)
assert_type(siltstone.estimate_tokens([{"role": "user", "content": "one"}], rule="blocks"), int)

history: list[dict[str, Any]] = [{"role": "user", "content": "one"}]


def summarise(request: siltstone.CompletionRequest) -> str:
    return f"{len(request.messages)} messages in {request.max_tokens} tokens"


async def summarise_later(request: siltstone.CompletionRequest) -> siltstone.Completion:
    return siltstone.Completion(summarise(request), usage=UsageRecord(model="m", input_tokens=1))


def on_event(event: events.Event) -> None:
    if isinstance(event, events.CompactionCompleted):
        assert_type(event.tokens_after, int)


def level_1(path: str) -> None:
    with siltstone.MemoryStore.open(path, ranker="lexical") as store:
        receipt = store.index(
            "chat-1", [siltstone.Entry("a text", source_range=(3, 4), role="user", name="Ann")]
        )
        assert_type(receipt.entry_ids, tuple[int | None, ...])
        hits = store.search("chat-1", "text", limit=5, ranker="cosine", min_score=0.1, explain=True)
        assert_type(hits, list[siltstone.SearchHit])
        assert_type(hits[0].source_range.start, int)
    with siltstone.SimpleMemoryStore() as simple:
        assert_type(simple.search("chat-1", "text"), list[siltstone.SearchHit])


def level_1_measured(path: str, dataset: Dataset) -> None:
    assert_type(evaluate(siltstone.SimpleMemoryStore, dataset), Report)
    report = evaluate(lambda: siltstone.MemoryStore.open(path), dataset, ranker="cosine", ties="earlier")
    assert_type(report.pooled.recall[10], float)


def vectors_of(texts: list[str]) -> list[list[float]]:
    return [[0.0] for _ in texts]


async def embed_later(texts: list[str]) -> list[list[float]]:
    return vectors_of(texts)


def on_store_event(event: events.EmbeddingFailed | events.SearchDegraded) -> None:
    assert isinstance(event, events.EmbeddingFailed | events.SearchDegraded)


def level_1_by_meaning(path: str) -> None:
    embedder: embedding.Embedder = embedding.FunctionEmbedder(vectors_of, "one", 1)
    embedders: list[embedding.Embedder] = [
        embedder,
        embedding.FunctionEmbedder(embed_later, "later", 1),
        embedding.MiniLMEmbedder(threads=2),
        embedding.TableEmbedder.load("table.npy"),
    ]
    with siltstone.MemoryStore.open(
        path, embedder=embedders[0], fusion="rrf", hooks=[on_store_event]
    ) as store:
        assert_type(store.flush(), bool)
        assert_type(store.lacking_vectors, int)
        decay = Decay(per_day=0.99)
        assert_type(store.search("chat-1", "text", ranker="fused", decay=decay), list[siltstone.SearchHit])


def level_2() -> None:
    policy = siltstone.ThresholdCompactor(
        siltstone.CompactionConfig(auto_compact_threshold=50_000, recent_turn_budget=2)
    )
    outcome = siltstone.compact(history, policy, model=summarise, hooks=[on_event])
    assert_type(outcome, Compacted | Skipped | Failed)
    if isinstance(outcome, Compacted):
        assert_type(outcome.summary, str)
    elif isinstance(outcome, Failed | Skipped):
        assert_type(outcome.reason, str)
    assert_type(outcome.tokens_after, int)
    assert_type(siltstone.plan(history, policy), Plan)
    policies: list[Compactor] = [
        policy,
        siltstone.ThresholdCompactor(),
        siltstone.Emergency(),
        siltstone.WaterfallCompactor(),
        siltstone.WindowCompactor(),
        siltstone.SmartTrim(),
    ]
    siltstone.compact(history, policies[-1])


async def level_2_async() -> None:
    outcome = await siltstone.acompact(history, siltstone.ThresholdCompactor(), model=summarise_later)
    assert_type(outcome, Compacted | Skipped | Failed)
    await siltstone.acompact(history, siltstone.ThresholdCompactor(), model=summarise)

    async def veto(plan: Plan) -> Guidance | None:
        return Guidance(veto=plan.cause) if plan.discarded < 2 else None

    await siltstone.acompact(history, siltstone.ThresholdCompactor(), on_before_compact=veto, check=True)


def level_3(path: str) -> None:
    with siltstone.Session.open(
        path,
        "chat-1",
        policy=siltstone.ThresholdCompactor(),
        model=siltstone.ExtractiveModel(),
        context_window=200_000,
        memory=True,
        hooks=[on_event],
    ) as session:
        assert_type(session, siltstone.Session)
        session.append(history[0], usage={"input_tokens": 10})
        prepared = session.prepare()
        assert_type(prepared, siltstone.Prepared)
        assert_type(prepared.tokens, int)
        session.prepare(policy=None)
        assert_type(session.plan(), Plan)
        assert_type(session.search("text", limit=3), list[siltstone.SearchHit])
        assert_type(session.compact(focus="the plan"), Compacted | Skipped | Failed)
        assert_type(session.usage, UsageRecord)
        assert_type(session.memory_search, siltstone.Tool)
        assert_type(session.memory_search.definition("anthropic"), dict[str, Any])
        assert_type(session.memory_search.call({"query": "text"}), str)
        assert_type(session.memory_instructions, str)
        assert_type(session.facts("ports", types=["config"]), list[Fact])
        assert_type(session.save("Use tabs", "preference"), Fact)
        assert_type(session.tools, list[siltstone.Tool])


async def level_3_async(path: str) -> None:
    async with await siltstone.AsyncSession.open(
        path, "chat-1", model=summarise_later, memory=siltstone.SimpleMemoryStore()
    ) as session:
        await session.append(history[0])
        assert_type(await session.prepare(), siltstone.Prepared)
        assert_type(await session.plan(), Plan)


def refused() -> None:
    """What a type checker must refuse: an unused ``type: ignore`` is an error too."""
    embedding.embed("one text", hash_rule="md5")  # type: ignore[arg-type]
    siltstone.estimate_tokens("one text", rule="words")  # type: ignore[call-overload, unused-ignore]
    siltstone.compact(history, siltstone.ThresholdCompactor)  # type: ignore[arg-type]
    siltstone.compact(history, siltstone.ThresholdCompactor(), model=summarise_later)  # type: ignore[arg-type]
    siltstone.CompactionConfig().recent_turn_budget = 3  # type: ignore[misc]
