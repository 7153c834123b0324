"""Does a room have its names, whoever imported which of its files first?"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import siltstone.compaction
import siltstone.messages

BOTH = [  # a name of the room that is the name of its file as well
    ("compaction", "breakdown"), ("compaction", "smart_trim"), ("compaction", "validate"),
    ("messages", "condensed"), ("messages", "groups"), ("messages", "tombstone"), ("messages", "turns"),
    ("tools", "chronicle"), ("tools", "context_compact"), ("tools", "memory_forget"), ("tools", "memory_get"),
    ("tools", "memory_save"), ("tools", "memory_search"), ("tools", "skill"),
]  # fmt: skip

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
@pytest.mark.parametrize(("room", "name"), [BOTH[0], BOTH[6], BOTH[-1]])
def test_a_name_that_a_file_shares_is_the_name(room, name, order):
    subprocess.run([sys.executable, "-c", ASKED, room, name, order], check=True)


@pytest.mark.parametrize(("room", "name"), BOTH)
def test_a_name_that_a_file_shares_can_be_called(room, name):
    assert callable(getattr(import_module(f"siltstone.{room}"), name))


def test_a_room_takes_what_is_set_on_it(monkeypatch):
    monkeypatch.setattr(siltstone.messages, "turns", len)
    assert siltstone.messages.groups is len


def test_a_room_keeps_its_files_where_they_share_no_name():
    import siltstone.messages.own_messages

    assert siltstone.messages.own_messages.__name__ == "siltstone.messages.own_messages"


def test_an_unknown_name_of_a_room_is_refused():
    with pytest.raises(AttributeError, match=r"module 'siltstone.compaction' has no attribute 'nothing'"):
        _ = siltstone.compaction.nothing
