"""Builds the site in target/site/html: README is its first page, llms.txt its table of contents.

    python scripts/build_site.py

Exit code 1 where a page does not build, or a link, an anchor or a picture leads nowhere.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
BUILD = CHECKOUT / "target" / "site"
PAGES, SITE = BUILD / "pages", BUILD / "html"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")


def contents() -> list[dict[str, object]]:
    """The pages of llms.txt by section, each by its title, and those of the reference."""
    sections = re.split(r"^## ", (CHECKOUT / "llms.txt").read_text("utf-8"), flags=re.MULTILINE)[1:]
    told = [{part.split("\n")[0]: [{name: page} for name, page in _LINK.findall(part)]} for part in sections]
    modules = sorted(page.stem for page in PAGES.glob("reference/*.md"))
    return [{"siltstone": "index.md"}, *told, {"API": [f"reference/{name}.md" for name in modules]}]


def dead(page: Path) -> list[str]:
    """The files that a built page refers to and that are not there. zensical checks links."""
    found = re.findall(r'(?:href|src)="?([^"#\s>]+)', page.read_text("utf-8"))
    local = {each for each in found if not re.match(r"[a-z]+:|/", each)}
    return [f"{page.relative_to(SITE)}: {each}" for each in local if not (page.parent / each).exists()]


def main() -> int:
    """The exit code."""
    shutil.rmtree(BUILD, ignore_errors=True)
    for folder in ("docs", "benches/record"):
        shutil.copytree(CHECKOUT / folder, PAGES / folder)
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(CHECKOUT / name, PAGES / name.replace("README", "index").replace("LICENSE", "LICENSE.md"))
    for page in PAGES.rglob("*.md"):
        text = page.read_text("utf-8").replace("README.md", "index.md").replace("](LICENSE)", "](LICENSE.md)")
        page.write_text(text, "utf-8")
    subprocess.run([sys.executable, CHECKOUT / "scripts/reference.py", PAGES / "reference"], check=True)
    settings = tomllib.loads((CHECKOUT / "site.toml").read_text("utf-8"))
    (BUILD / "mkdocs.yml").write_text(json.dumps({**settings, "nav": contents()}), "utf-8")
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=BUILD, check=False)
    for page in PAGES.rglob("*.md"):  # as they are, for those who read llms.txt
        shutil.copy(page, SITE / page.relative_to(PAGES))
    shutil.copy(CHECKOUT / "llms.txt", SITE)
    gone = [each for page in SITE.rglob("*.html") for each in dead(page)]
    print(*gone, f"{SITE}: {len(gone)} links lead nowhere", sep="\n")
    return int(bool(built.returncode or gone))


if __name__ == "__main__":
    sys.exit(main())
