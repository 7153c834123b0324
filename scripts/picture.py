"""Draws docs/window.svg, the picture of the README: what its first example says, and what it sends.

python scripts/picture.py           writes it
python scripts/picture.py --check   exit code 1 where the file is another one
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from siltstone import Session, estimate_tokens

PICTURE = Path(__file__).parent.parent / "docs" / "window.svg"
WINDOW, TURNS = 4_000, 200
WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 190, 20, 40  # what is around the plot
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#57606a}path,line{fill:none;stroke-width:2}"
    ".axis{stroke:#8c959f;stroke-width:1}.said{stroke:#8c959f;stroke-dasharray:5 4}.window{stroke:#cf222e}"
    ".sent{stroke:#1a7f64}.area{fill:#1a7f64;opacity:.18}.green{fill:#1a7f64}.red{fill:#cf222e}"
    "@media(prefers-color-scheme:dark){text{fill:#9198a1}.window{stroke:#ff7b72}.red{fill:#ff7b72}"
    ".sent{stroke:#3fb991}.area,.green{fill:#3fb991}}"
)


def measured() -> tuple[list[int], list[int]]:
    """Tokens of all that was said, and of the request, at each turn of the README's first example."""
    said: list[dict[str, str]] = []
    spoken, sent = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        Session.open(folder, "chat-1", context_window=WINDOW) as session,
    ):
        for valve in range(TURNS):
            answer = f"Valve {valve} holds {valve * 3} bar. " + "All is well. " * 20
            said.append({"role": "user", "content": "How is the next one?"})
            session.append(said[-1])
            sent.append(session.prepare().tokens)
            spoken.append(estimate_tokens(said, "blocks"))
            said.append({"role": "assistant", "content": answer})
            session.append(said[-1])
    return spoken, sent


def drawn(spoken: Sequence[int], sent: Sequence[int]) -> str:
    """Both as lines, below and above the window."""
    top = max(spoken)
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def y(tokens: float) -> float:
        return round(TOP + down * (1 - tokens / top), 1)

    def path(tokens: Sequence[int]) -> str:
        points = (f"{LEFT + across * at / (len(tokens) - 1):.1f},{y(each)}" for at, each in enumerate(tokens))
        return "M" + " L".join(points)

    floor, edge, right = y(0), LEFT + across, LEFT + across + 10
    title = f"{len(spoken)} turns, {top:,} tokens said: no request has more than {max(sent):,} tokens"
    marks = [tokens for tokens in range(0, top, 5_000) if y(tokens) > TOP - 1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title><style>{STYLE}</style>",
        *(f'<text x="{LEFT - 8}" y="{y(each) + 4}" text-anchor="end">{each:,}</text>' for each in marks),
        *(
            f'<line class="axis" x1="{LEFT - 4}" x2="{LEFT}" y1="{y(each)}" y2="{y(each)}"/>'
            for each in marks
        ),
        f'<line class="axis" x1="{LEFT}" x2="{edge}" y1="{floor}" y2="{floor}"/>',
        f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{floor}"/>',
        f'<path class="said" d="{path(spoken)}"/>',
        f'<path class="area" style="stroke:none" d="{path(sent)} L{edge},{floor} L{LEFT},{floor}Z"/>',
        f'<path class="sent" d="{path(sent)}"/>',
        f'<line class="window" x1="{LEFT}" x2="{edge}" y1="{y(WINDOW)}" y2="{y(WINDOW)}"/>',
        f'<text x="{right}" y="{y(top) + 10}">what was said,</text>',
        f'<text x="{right}" y="{y(top) + 27}">{top:,} tokens: all on disk,</text>',
        f'<text x="{right}" y="{y(top) + 44}">what left is found by search</text>',
        f'<text class="red" x="{right}" y="{y(WINDOW) - 2}">the window, {WINDOW:,}</text>',
        f'<text class="green" x="{right}" y="{y(WINDOW) + 20}">what is sent</text>',
        f'<text x="{LEFT + across / 2}" y="{HEIGHT - 10}" text-anchor="middle">{len(spoken)} turns</text>',
        "</svg>",
    ]
    return "\n".join([*parts, ""])


def main() -> int:
    """The exit code."""
    made = drawn(*measured())
    if "--check" in sys.argv:
        return int(made != PICTURE.read_text("utf-8"))
    PICTURE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
