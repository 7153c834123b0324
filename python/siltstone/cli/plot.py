"""A picture of a replay: the tokens that were sent at each boundary, with a line for each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import typer

from siltstone.cli.replay import Replay

__all__ = ["check_plot", "plot"]

INSTALL = "a plot needs the extra: pip install 'siltstone[plot]'"
FORMATS = (".svg", ".png")

# Colours that colour-blind people can distinguish (Okabe and Ito), and different styles of lines.
STYLES = [
    ("#0072B2", "-"), ("#D55E00", "-"), ("#009E73", "-"), ("#CC79A7", "-"),
    ("#E69F00", "--"), ("#56B4E9", "--"), ("#000000", "--"), ("#0072B2", ":"), ("#D55E00", ":"),
]  # fmt: skip


def check_plot(path: Path) -> None:
    """Checks the format of the file and the plot's extra, before a session is replayed.

    Raises:
        typer.BadParameter: the file has another format, or matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{path} must end in {' or '.join(FORMATS)}", param_hint="--plot")
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise typer.BadParameter(INSTALL, param_hint="--plot") from None


def plot(replays: Mapping[str, Sequence[Replay]], window: int, path: Path) -> None:
    """Draws *replays* (sessions by policy) to *path*, with one field for each session.

    The same replays give the same bytes of an SVG.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    sessions = [result.name for result in next(iter(replays.values()))]
    with mpl.rc_context({"svg.hashsalt": "siltstone", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 2.8 * len(sessions) + 0.6))
        fields = figure.subplots(len(sessions), 1, sharey=True, squeeze=False)
        lines = list(zip(replays.items(), cycle(STYLES), strict=False))
        for number, (field, name) in enumerate(zip(fields[:, 0], sessions, strict=True)):
            field.axhline(window, color="#888888", linewidth=0.8, linestyle=(0, (6, 3)))
            field.annotate(
                f"window, {window:,}",
                (0, window),
                xycoords=("axes fraction", "data"),
                xytext=(4, 3),
                textcoords="offset points",
                color="#666666",
            )
            for (label, results), (colour, style) in lines:
                steps = results[number].timeline
                field.plot(
                    [seq for seq, _ in steps],
                    [tokens for _, tokens in steps],
                    color=colour,
                    linestyle=style,
                    linewidth=1.3,
                    label=label,
                )
            field.set_title(name, loc="left", fontsize=9)
            field.set_ylabel("tokens sent")
            field.set_ylim(0, window * 1.12)
            field.margins(x=0.01)
            field.spines[["top", "right"]].set_visible(False)
            field.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        fields[-1, 0].set_xlabel("messages so far")
        figure.legend(*fields[0, 0].get_legend_handles_labels(), loc="upper center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / figure.get_figheight()))
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
