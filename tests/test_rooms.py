"""Does a room have its names, whoever imported which of its files first?"""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
import importlib, sys
room, name = "siltstone." + sys.argv[1], sys.argv[2]
if sys.argv[3] == "file first":
    importlib.import_module(room + "." + name)
found = getattr(importlib.import_module(room), name)
importlib.import_module(room + "." + name)
assert found is getattr(importlib.import_module(room), name)
assert found is getattr(sys.modules[room + "." + name], name), found
"""


@pytest.mark.parametrize("order", ["file first", "name first"])
@pytest.mark.parametrize(("room", "name"), [("messages", "groups")])
def test_a_name_that_a_file_shares_is_the_name(room, name, order):
    subprocess.run([sys.executable, "-c", ASKED, room, name, order], check=True)
