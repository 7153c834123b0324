"""Tries a wheel, or a source distribution, as somebody would who has only Python.

    python scripts/try_wheel.py dist/siltstone-*.whl

It is installed into an environment of its own. README's first example runs there twice in one folder, and
must print what README shows. The licences of everything that is linked in must have come along.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
LICENCES = """
from importlib.metadata import files
there = {path.name for path in files("siltstone") or () if path.parent.name == "licenses"}
assert there == {"LICENSE", "THIRD-PARTY.txt"}, f"the licences in it are {sorted(there)}"
"""


def main(distribution: Path) -> None:
    """Raises where anything is not as README says."""
    fences = re.findall(r"^```(python|text)\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (_, example), *shown = fences[:3]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        venv.create(place / "env", with_pip=True)
        python = place / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", distribution.resolve()], check=True)
        for code, expected in ((LICENCES, ""), *((example, text) for _, text in shown)):
            command = [python, "-Ic", code]
            told = subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE, text=True).stdout
            if told != expected:
                sys.exit(f"{distribution.name} printed {told!r}, and README shows {expected!r}")
    print(f"{distribution.name}: README's first example printed what README shows, twice")


if __name__ == "__main__":
    main(Path(sys.argv[1])) if len(sys.argv) == 2 else sys.exit(__doc__)
