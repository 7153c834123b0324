"""Redaction: the secrets that it finds, its mistakes, and its speed, beside detect-secrets.

python benches/quality/redaction.py [--record benches/record]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from harness import run
from siltstone.evaluation import Dataset
from siltstone.redaction import Redactor

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from common import timed
from secret_forms import FORMS, Planted, plant

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


def judged(find: Find, planted: Sequence[Planted], clean: Sequence[str]) -> tuple[int, int, int]:
    """Secrets found, findings beside a secret, and clean texts with a finding."""
    found = beside = 0
    for each in planted:
        hits = [hit for hit in find(each.text) if hit]
        mine = [hit for hit in hits if hit in each.secret or each.secret in hit or _shares(hit, each.secret)]
        found += bool(mine)
        beside += len(hits) - len(mine)
    return found, beside, sum(any(find(text)) for text in clean)


def _shares(hit: str, secret: str) -> bool:
    """Whether one line of a secret of many lines was found."""
    return any(line and line in hit for line in secret.splitlines())


def page(datasets: Sequence[Dataset]) -> Iterator[str]:
    """The lines of the record."""
    random = Random(18)
    turns = (turn for dataset in datasets for each in dataset.conversations for turn in each.turns)
    real = [turn.text for turn in turns if 40 < len(turn.text) < 4_000]
    planted = list(plant(real, PLANTED * len(FORMS), seed=18))
    clean = random.sample(real, min(CLEAN, len(real)))
    redactor = Redactor()
    size = sum(len(each.text.encode()) for each in planted) + sum(len(text.encode()) for text in clean)
    yield f"{len(planted):,} secrets of {len(FORMS)} forms, each in a turn of a recorded conversation;"
    yield f"{len(clean):,} turns without one.\n"
    yield "| | found | beside a secret | clean turns with a finding | MB/s |\n|---|---|---|---|---|"
    with ExitStack() as stack:
        contenders = {"siltstone": ours(redactor), "detect-secrets, all plugins": detect_secrets(stack)}
        for name, find in contenders.items():
            if find is None:
                yield f"| {name} | not installed | | | |"
                continue
            figures: list[tuple[int, int, int]] = []
            spent = timed(lambda find=find: figures.append(judged(find, planted, clean)))  # noqa: B023
            ((found, beside, wrong),) = figures
            yield f"| {name} | {found / len(planted):.4f} | {beside} | {wrong} | {size / spent / 1e3:.2f} |"
    whole = "\n".join(real)
    megabytes = len(whole.encode()) / 1e6
    rate = megabytes / timed(lambda: redactor.redact(whole)) * 1e3
    yield f"\nAll turns as one text, {megabytes:.1f} MB: {rate:.0f} MB/s."
    yield "\nTexts that are made to be slow, of one unit over and over:\n"
    yield "| unit | 1 MB, ms | 10 MB, ms |\n|---|---|---|"
    for unit in UNITS:
        texts = (unit * (size // len(unit)) for size in (WORST // 10, WORST))
        spent = [timed(lambda text=text: redactor.redact(text)) for text in texts]
        yield f"| `{unit}` | {spent[0]:.0f} | {spent[1]:.0f} |"
    missed = Counter(each.form for each in planted if not ours(redactor)(each.text))
    yield f"\nForms that were missed: {dict(missed) or 'none'}."


def main() -> int:
    """2 where it cannot measure."""
    return run(__doc__.splitlines()[0], "redaction", page)


if __name__ == "__main__":
    sys.exit(main())
