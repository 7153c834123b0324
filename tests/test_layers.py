"""Can the test of the architecture fail? Each rule is fed a file that breaks it, and one that does not."""

from __future__ import annotations

import pytest

from architecture.layers import RUST_FAMILIES, broken, rust_broken, upward
from architecture.python_imports import DYNAMIC, Import, imports
from architecture.rust_paths import code, file_name, used_files, uses

KNOWN = {"siltstone", "siltstone.errors", "siltstone.memory", "siltstone.memory.base", "siltstone.memory.log"}


def python(module: str, source: str) -> list[str]:
    return list(broken(module, imports(source, module, KNOWN)))


def rust(module: str, source: str) -> list[str]:
    path = tuple(module.split("::"))
    return list(rust_broken(path, uses(source, path)))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("siltstone.compaction.threshold", "from siltstone.memory.base import Store"),
        ("siltstone.compaction.threshold", "from siltstone.models import ExtractiveModel"),
        ("siltstone.compaction.threshold", "import siltstone.session"),
        ("siltstone.compaction.threshold", "from .. import session"),
        ("siltstone.compaction.threshold", "from ..memory import base"),
        ("siltstone.compaction.threshold", "if TYPE_CHECKING:\n    from siltstone.memory import Store"),
        ("siltstone.compaction.threshold", "def late():\n    from siltstone.memory import Store"),
        ("siltstone.compaction.threshold", "import importlib\nimportlib.import_module('siltstone.memory')"),
        ("siltstone.compaction.threshold", "def late(name):\n    return __import__(name)"),
        ("siltstone.compaction.threshold", "from siltstone import MemoryStore"),
        ("siltstone.compaction.threshold", "from siltstone._native import words"),
        ("siltstone.compaction.threshold", "from siltstone.attic import old"),
        ("siltstone.attic", "from siltstone.errors import SiltstoneError"),
        ("siltstone.events", "from siltstone.llm import Flow"),
        ("siltstone.errors", "from siltstone.usage import UsageRecord"),
        ("siltstone.models.extractive", "from siltstone.memory.base import Store"),
        ("siltstone.session.sync", "from siltstone.compaction.threshold import ThresholdCompactor"),
        ("siltstone.session.sync", "from siltstone.compaction import ThresholdCompactor"),
        ("siltstone.session.sync", "from siltstone.cli.app import app"),
        ("siltstone.engine", "from siltstone.tools import Tool"),
        ("siltstone.tools.base", "from siltstone import Session"),
        ("siltstone.evaluation.run", "from siltstone.memory import Store"),
        ("siltstone.evaluation.run", "from siltstone.compaction.base import Compactor"),
        ("siltstone.embedding.hashed", "import numpy as np"),
        ("siltstone.embedding.hashed", "import pydantic"),
        ("siltstone.session.sync", "import rich"),
        ("siltstone.memory.opening", "from siltstone.stores import MemoryStore"),
        ("siltstone.session.sync", "from siltstone.stores import MemoryStore"),
        ("siltstone.session.opening", "def late():\n    from siltstone.stores import MemoryStore"),
    ],
)
def test_an_import_that_the_table_forbids_is_found(module, source):
    assert len(python(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("siltstone.compaction.threshold", "from siltstone.compaction.base import Compaction"),
        ("siltstone.compaction.threshold", "from .base import Compaction"),
        ("siltstone.compaction.threshold", "from siltstone import errors"),
        ("siltstone.compaction.threshold", "import json, re\nfrom collections.abc import Sequence"),
        ("siltstone.session.sync", "from siltstone.compaction.base import Compactor"),
        ("siltstone.session.sync", "from siltstone.memory.base import Store"),
        ("siltstone.stores.database", "from siltstone.session import Session"),
        ("siltstone.evaluation.run", "from siltstone.memory.entry import Entry"),
        ("siltstone.embedding.hashed", "def embed():\n    import numpy as np"),
        ("siltstone.embedding.hashed", "if typing.TYPE_CHECKING:\n    import numpy as np"),
        ("siltstone.embedding.hashed", "from siltstone._native import embed_batch"),
        ("siltstone.cli.app", "import typer\nfrom rich.table import Table"),
        ("siltstone", "from siltstone.session import Session"),
        ("siltstone.__main__", "from siltstone.cli import main"),
    ],
)
def test_an_import_that_the_table_allows_is_not_found(module, source):
    assert python(module, source) == []


def test_a_name_of_a_package_is_told_from_a_module_in_it():
    found = imports("from siltstone.memory import base, Store", "siltstone.session", KNOWN)
    assert [each.module for each in found] == ["siltstone.memory.base", "siltstone.memory"]


def test_an_import_whose_name_is_made_at_run_time_is_not_overlooked():
    assert imports("import_module(name)", "siltstone.llm", KNOWN) == [Import(DYNAMIC, 1)]


@pytest.mark.parametrize(
    ("family", "graph", "expected"),
    [
        ("stores", {"database": {"simple"}, "simple": set()}, 1),
        ("stores", {"simple": {"memory"}, "memory": set()}, 1),
        ("stores", {"simple": {"__init__"}, "__init__": set()}, 1),
        ("memory", {"attic": {"base"}, "base": set()}, 1),
        ("stores", {"database": {"simple"}, "simple": {"database"}}, 2),
        ("session", {"sync": {"core"}, "core": {"view"}, "view": {"sync"}}, 2),
        ("messages", {"read": {"groups"}, "groups": {"turns"}, "turns": {"read"}}, 1),
        (
            "memory",
            {"__init__": {"opening"}, "opening": {"base", "entry"}, "base": {"log"}, "log": {"entry"}},
            0,
        ),
        ("session", {"__init__": {"sync"}, "sync": {"core"}, "core": {"view"}}, 0),
    ],
)
def test_a_family_is_read_from_its_base_upward(family, graph, expected):
    assert len(list(upward(family, graph))) == expected


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("embed::hash", "use crate::memory::Store;"),
        ("embed::hash", "use crate::{tokenize::words, memory::{self, options::Options}};"),
        ("embed", "fn f() { let store = crate::memory::open(); }"),
        ("embed::hash", "use super::super::memory::Store;"),
        ("embed::hash", "use crate::Error;"),
        ("index::flat", "use crate::sqlite::Database;"),
        ("sqlite::log", "use crate::vector::SparseRow;"),
        ("tokenize", "pub use crate::id::EntryId as Id;"),
        ("attic", "use crate::error::Error;"),
    ],
)
def test_a_path_that_the_table_forbids_is_found(module, source):
    assert rust(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("embed::hash", "use super::hashed_tf::counts;\nuse self::inner::Thing;"),
        ("embed::hash", "use crate::{tokenize::words::Scanner, vector::{BUCKETS, SparseRow}};"),
        ("embed::hash", "// use crate::memory::Store;\n/* crate::memory::Store */"),
        (
            "embed::hash",
            'const TEXT: &str = "crate::memory::Store"; const RAW: &str = r#"a "crate::memory" b"#;',
        ),
        (
            "embed::hash",
            "#[cfg(test)]\nmod tests {\n    use crate::memory::Store;\n    fn f() { if x { y } }\n}",
        ),
        ("embed::hash", "#[cfg(test)]\nuse crate::memory::Store;\nuse crate::error::Error;"),
        ("embed::hash", "use std::collections::HashMap;\nuse xxhash_rust::xxh3::xxh3_64;"),
    ],
)
def test_a_path_that_the_table_allows_is_not_found(module, source):
    assert rust(module, source) == []


FILES = {
    ("outline",),
    ("outline", "keys"),
    ("outline", "lines"),
    ("outline", "deep"),
    ("outline", "deep", "ends"),
}


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("outline::lines", "use super::keys::Key;", {"keys"}),
        ("outline::lines", "fn f(key: crate::outline::keys::Key) {}", {"keys"}),
        ("outline::lines", "use crate::outline::{Outline, deep::ends::End};", {"mod", "deep/ends"}),
        ("outline::lines", "use super::deep::End;", {"deep/mod"}),
        ("outline::lines", "use crate::id::EntryId;\nuse std::mem;", set()),
        ("outline::lines", "#[cfg(test)]\nmod tests {\n    use crate::outline::Outline;\n}", set()),
    ],
)
def test_the_files_of_a_room_that_a_file_uses_are_found(module, source, expected):
    path = tuple(module.split("::"))
    assert used_files(uses(source, path), path, FILES) == expected


def test_a_file_is_named_by_its_place_in_its_room():
    names = {file_name(file, FILES) for file in FILES}
    assert names == {"mod", "keys", "lines", "deep/mod", "deep/ends"}


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"mod": {"keys", "lines"}, "keys": set(), "lines": {"keys"}}, 0),
        ({"lines": {"mod"}}, 1),  # a name that the room re-exports
        ({"keys": {"lines"}, "lines": set()}, 1),
        ({"keys": {"lines"}, "lines": {"keys"}}, 2),  # upward, and a circle
        ({"attic": set()}, 1),
    ],
)
def test_a_room_of_the_core_is_read_from_its_lowest_file_upward(graph, expected):
    assert len(list(upward("outline", graph, RUST_FAMILIES, "mod"))) == expected


def test_what_follows_a_test_module_is_read_again():
    source = "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n\nuse crate::memory::Store;"
    assert [use.line for use in uses(source, ("embed",))] == [6]


def test_a_lifetime_is_no_character():
    source = "fn f<'a>(x: &'a str) -> char { '\"' } // unsafe\nunsafe fn g<'b>() -> char { '\\'' }"
    assert [line.count("unsafe") for line in code(source).splitlines()] == [0, 1]
