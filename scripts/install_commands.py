"""Says in every page how siltstone is installed today. A release changes `ON_INDEX`, and nothing else.

python scripts/install_commands.py           writes the commands
python scripts/install_commands.py --check   names each page that has others; exit code 1
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ON_INDEX = False  #: whether `pip install siltstone` finds it on PyPI

CHECKOUT = Path(__file__).parent.parent
PAGES = ("README.md", "llms.txt", "docs/**/*.md", "examples/*.py")
_COMMAND = re.compile(
    r"pip install (?:'(?:siltstone|\.)(?P<extra>\[[\w,-]+\])'|siltstone(?![\w-])|\.(?=`? ))"
    r"(?P<more>(?: '[\w\[\],-]+')*)(?P<tick>`?)(?:(?:  #)? in a checkout)?"
)


def command(found: re.Match[str]) -> str:
    """The command that works today, in the place of *found*."""
    extra, more, tick = found["extra"] or "", found["more"], found["tick"]
    name = f"siltstone{extra}" if ON_INDEX else f".{extra}"
    quoted = f"'{name}'" if extra else name
    where = "" if ON_INDEX else " in a checkout" if tick else "  # in a checkout"
    return f"pip install {quoted}{more}{tick}{where}"


def main(check: bool) -> int:
    """The exit code."""
    wrong = []
    for page in (page for pattern in PAGES for page in CHECKOUT.glob(pattern)):
        text = page.read_text("utf-8")
        if (said := _COMMAND.sub(command, text)) != text:
            wrong.append(page.relative_to(CHECKOUT).as_posix())
            if not check:
                page.write_text(said, "utf-8")
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return int(check and bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--check"]))
