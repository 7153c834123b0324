"""Draws docs/found.svg from the records: what of the evidence is sent, and what a search finds.

python benches/quality/picture.py
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
SENT = {"newest messages": 2, "LangChain": 3, "no recall": 4, "recall": 7}  # columns of the record
FOUND = (
    "MiniLM, exact cosine|bm25s, stop words and stems|tantivy en_stem|SQLite FTS5 porter|MemoryStore lexical"
)


def rows(record: str, first: str) -> list[list[str]]:
    """The cells of the rows of *record* that begin with *first*."""
    lines = (ROOT / "benches/record" / record).read_text("utf-8").splitlines()
    return [line.split(" | ") for line in lines if line.startswith(f"| {first} |")]


with mpl.rc_context({"svg.hashsalt": "siltstone", "svg.fonttype": "none", "font.size": 9}):
    figure = Figure(figsize=(8, 3), layout="constrained")
    sent, found = figure.subplots(1, 2)
    told, names = rows("evidence-sent-2026-11-27.md", "locomo-dev"), FOUND.split("|")
    for at, (name, column) in enumerate(SENT.items()):
        sent.bar(
            [place + at / 5 for place in range(3)], [float(row[column]) for row in told], 0.19, label=name
        )
    sent.set_xticks([0.3, 1.3, 2.3], [row[1] for row in told])
    sent.set(title="evidence sent, by the window (LoCoMo)", ylim=(0, 1.2))
    sent.legend(fontsize=7, ncols=2)
    found.barh(names, [float(rows("quality-2026-11-23.md", name)[0][1]) for name in names], color="C2")
    found.set(title="Recall@10 (LoCoMo)", xlim=(0, 1))
    figure.savefig(ROOT / "docs/found.svg", metadata={"Date": None})
