"""Is the API reference whole, and does it say nothing of what is not there?"""

import runpy
import subprocess
import sys
from pathlib import Path

import siltstone

SCRIPT = Path(__file__).parents[1] / "scripts" / "reference.py"


def test_every_public_name_is_in_the_reference_and_nothing_is_to_be_warned_of(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    text = (tmp_path / "siltstone.md").read_text("utf-8")
    shown = [name for name in siltstone.__all__ if f"{{ #siltstone.{name} }}" in text]
    hidden = set(siltstone.__all__) - set(shown)
    assert hidden == {"__version__"}
    assert "SearchHit" in shown


def test_what_a_docstring_says_of_a_parameter_that_is_not_there_is_told() -> None:
    page = runpy.run_path(str(SCRIPT))["Reference"]()

    def search(query: str) -> None:
        """Looks.

        See :meth:`nowhere`.

        Args:
            query: The words to look for.
            limit: Hits at most.
        """

    def silent() -> None: ...

    page.name("here.search", "search", search)
    page.name("here.silent", "silent", silent)
    page.finish()
    assert page.wrong == [
        "here.search documents 'limit', which it does not take",
        "here.silent has no docstring",
        "here.search refers to 'nowhere', which is not here",
    ]
