"""Makes the table of models' windows anew, or says where it differs from its source.

    pip install genai-prices
    python scripts/windows.py           the differences; exit code 1 where there are any
    python scripts/windows.py --write   writes python/siltstone/windows.tsv

The source is the package genai-prices, which its makers check against the providers' own pages.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from genai_prices import data_snapshot

TABLE = Path(__file__).parent.parent / "python" / "siltstone" / "windows.tsv"
PROVIDERS = ("anthropic", "cohere", "deepseek", "google", "meta", "mistral", "moonshotai", "openai", "x-ai")


def rows() -> list[str]:
    """A line for each model: its name, its window, whose it is. Of two providers the first counts."""
    known = {provider.id: provider for provider in data_snapshot.get_snapshot().providers}
    found: dict[str, str] = {}
    for name in PROVIDERS:
        for model in known[name].models:
            if model.context_window:
                found.setdefault(model.id, f"{model.id}\t{model.context_window}\t{name}")
    return sorted(found.values())


def main() -> int:
    """The exit code."""
    made = rows()
    if "--write" in sys.argv:
        head = [
            "# model, context window in tokens, provider; made by scripts/windows.py",
            f"# source: genai-prices {version('genai-prices')} (https://github.com/pydantic/genai-prices)",
            f"# date: {datetime.now(UTC).date().isoformat()}",
        ]
        TABLE.write_text("\n".join([*head, *made, ""]), "utf-8")
        return 0
    there = [line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    differs = sorted(set(made) ^ set(there))
    for line in differs:
        print(f"{'+' if line in made else '-'} {line}")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
