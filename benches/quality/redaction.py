"""The secrets that redaction finds, its mistakes, and its speed, beside detect-secrets.

python benches/quality/redaction.py [--record benches/record]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import Random

CHECKOUT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(CHECKOUT / "tests"))

from record import commit, machine  # noqa: E402
from secret_forms import FORMS, Planted, plant  # noqa: E402
from siltstone import _native  # noqa: E402
from siltstone.errors import DatasetError  # noqa: E402
from siltstone.evaluation import RECORDED, load_dataset  # noqa: E402
from siltstone.redaction import Redactor  # noqa: E402

PLANTED = 40  #: secrets of each form
CLEAN = 3_000  #: texts without a secret
WORST = 10_000_000  #: bytes of a text that is made to be slow

UNITS = (
    "eyJ", "-----BEGIN PRIVATE KEY-----", "token=", "https://a:", "password: ", "curl -u a", "a:b@",
)  # fmt: skip

Find = Callable[[str], Sequence[str]]
"""The findings of a detector in a text: the secrets themselves, or pieces of them."""


def ours(redactor: Redactor) -> Find:
    """The findings of our rules."""
    return lambda text: [text[each.start : each.end] for each in redactor.redact(text)[1]]


def detect_secrets(stack: ExitStack) -> Find | None:
    """The findings of detect-secrets with all of its plugins; None where it is not installed."""
    try:
        from detect_secrets import SecretsCollection
        from detect_secrets.settings import default_settings
    except ImportError:
        return None
    stack.enter_context(default_settings())
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "text.txt"

    def find(text: str) -> Sequence[str]:
        path.write_text(text, encoding="utf-8")
        secrets = SecretsCollection()
        secrets.scan_file(str(path))
        return [secret.secret_value or "" for _, secret in secrets]

    return find


def judged(find: Find, planted: Sequence[Planted], clean: Sequence[str]) -> tuple[int, int, int, float]:
    """Secrets found, findings beside a secret, clean texts with a finding, and seconds."""
    found = beside = wrong = 0
    start = time.perf_counter()
    for each in planted:
        hits = [hit for hit in find(each.text) if hit]
        mine = [hit for hit in hits if hit in each.secret or each.secret in hit or _shares(hit, each.secret)]
        found += bool(mine)
        beside += len(hits) - len(mine)
    for text in clean:
        wrong += bool([hit for hit in find(text) if hit])
    return found, beside, wrong, time.perf_counter() - start


def _shares(hit: str, secret: str) -> bool:
    """Whether one line of a secret of many lines was found."""
    return any(line and line in hit for line in secret.splitlines())


def texts() -> list[str]:
    """Turns of the recorded conversations, in all of their languages."""
    return [
        turn.text
        for name in RECORDED
        for conversation in load_dataset(name).conversations
        for turn in conversation.turns
        if 40 < len(turn.text) < 4_000
    ]


def worst(redactor: Redactor) -> list[tuple[str, float, float]]:
    """Texts of beginnings of secrets: their unit, and seconds for a tenth of the size and for all of it."""
    rows = []
    for unit in UNITS:
        times = []
        for size in (WORST // 10, WORST):
            text = unit * (size // len(unit))
            start = time.perf_counter()
            redactor.redact(text)
            times.append(time.perf_counter() - start)
        rows.append((unit, times[0], times[1]))
    return rows


def page(real: Sequence[str], stack: ExitStack) -> str:
    """The record as Markdown."""
    random = Random(18)
    planted = list(plant(list(real), PLANTED * len(FORMS), seed=18))
    clean = random.sample(list(real), min(CLEAN, len(real)))
    redactor = Redactor()
    bytes_ = sum(len(each.text.encode()) for each in planted) + sum(len(text.encode()) for text in clean)
    contenders = [("siltstone", ours(redactor)), ("detect-secrets, all plugins", detect_secrets(stack))]
    lines = [
        f"# Redaction, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`python benches/quality/redaction.py` on commit {commit()}. {machine()}.",
        f"{len(planted):,} secrets of {len(FORMS)} forms, each in a turn of a recorded conversation;",
        f"{len(clean):,} turns without one.",
        "",
        "| | found | beside a secret | clean turns with a finding | MB/s |",
        "|---|---|---|---|---|",
    ]
    for name, find in contenders:
        if find is None:
            lines.append(f"| {name} | not installed | | | |")
            continue
        sample = planted, clean
        found, beside, wrong, seconds = judged(find, *sample)
        lines.append(
            f"| {name} | {found / len(planted):.4f} | {beside} | {wrong} of {len(clean):,} | "
            f"{bytes_ / seconds / 1e6:.2f} |"
        )
    whole = "\n".join(real)
    start = time.perf_counter()
    redactor.redact(whole)
    seconds = time.perf_counter() - start
    size = len(whole.encode()) / 1e6
    lines += ["", f"All turns as one text, {size:.1f} MB: {size / seconds:.0f} MB/s."]
    lines += ["", "Texts that are made to be slow, of one unit over and over:", ""]
    lines += ["| unit | 1 MB, s | 10 MB, s |", "|---|---|---|"]
    lines += [f"| `{unit}` | {small:.3f} | {large:.3f} |" for unit, small, large in worst(redactor)]
    missed = Counter(each.form for each in planted if not ours(redactor)(each.text))
    lines += ["", f"Forms that were missed: {dict(missed) or 'none'}.", ""]
    return "\n".join(lines)


def main() -> int:
    """2 where it cannot measure."""
    parser = argparse.ArgumentParser(prog="redaction", description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, metavar="DIR", help="write DIR/redaction-DATE.md as well")
    arguments = parser.parse_args()
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install", file=sys.stderr)
        return 2
    try:
        with ExitStack() as stack:
            written = page(texts(), stack)
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 2
    print(written)
    if arguments.record:
        target = arguments.record / f"redaction-{datetime.now(UTC):%Y-%m-%d}.md"
        target.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
