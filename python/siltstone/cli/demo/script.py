"""The script of the demo: requests and tool calls over real files, in several hundred turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from siltstone.cli.demo.sources import module_file, run_tool

__all__ = ["SYSTEM", "Turn", "turns"]

SYSTEM = {
    "role": "system",
    "content": "You are a reader of the Python standard library. Answer from its source, never from memory.",
}

_MODULES = """
smtplib poplib imaplib ftplib http.client http.server http.cookiejar logging.handlers logging.config
socketserver selectors asyncio.constants asyncio.base_events asyncio.streams asyncio.queues ipaddress ssl
xmlrpc.client urllib.parse urllib.request urllib.robotparser email.message email.header email.utils mailbox
tarfile zipfile gzip bz2 lzma shutil tempfile filecmp fnmatch glob pathlib os posixpath stat fileinput
pickle shelve json.decoder json.encoder csv configparser plistlib netrc base64 quopri hashlib hmac secrets
random statistics fractions decimal numbers colorsys heapq bisect queue sched threading subprocess
multiprocessing.pool multiprocessing.connection concurrent.futures.thread contextlib functools dataclasses
enum typing abc copy pprint reprlib textwrap string difflib re._parser tokenize token ast dis inspect
traceback linecache warnings unittest.case unittest.mock doctest timeit trace cProfile pstats pdb cmd code
argparse optparse getopt getpass gettext locale calendar datetime zoneinfo uuid wave mimetypes
"""

ASSIGNMENT = r"^[A-Za-z_][A-Za-z0-9_.]* *(: *[A-Za-z]+ *)?= "

_Call = tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A request, and the steps of the agent for it. The calls of a step are in one message."""

    request: str
    steps: tuple[tuple[_Call, ...], ...]
    answer: str

    def messages(self, number: int) -> Iterator[dict[str, Any]]:
        """The turn's messages in OpenAI chat form. A tool runs when its call is reached."""
        yield {"role": "user", "content": self.request}
        output = ""
        for step, calls in enumerate(self.steps):
            ids = [f"call_{number}_{step}_{index}" for index in range(len(calls))]
            yield {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": call_id,
                        "type": "function",
                        "function": {"name": name, "arguments": json.dumps(arguments)},
                    }
                    for call_id, (name, arguments) in zip(ids, calls, strict=True)
                ],
            }
            for call_id, (name, arguments) in zip(ids, calls, strict=True):
                output = run_tool(name, arguments)
                yield {"role": "tool", "tool_call_id": call_id, "content": output}
        yield {"role": "assistant", "content": f"{self.answer} ({len(output.splitlines())} lines read last.)"}


def turns() -> list[Turn]:
    """The script: four requests for each module that this Python has."""
    found = [(module, path) for module in _MODULES.split() if (path := module_file(module))]
    return [turn for module, path in found for turn in _about(module, path)]


def _about(module: str, path: str) -> Iterator[Turn]:
    folder = path.rpartition("/")[0] or "."
    look: _Call = (
        ("list_directory", {"path": folder})
        if folder != "."
        else ("grep", {"pattern": "^import ", "path": path})
    )
    yield Turn(
        f"What is the module {module} for? Look where it lives and read how it begins.",
        ((look, ("read_file", {"path": path, "start": 1, "lines": 60})),),
        f"I have read how {module} begins.",
    )
    yield Turn(
        f"Which constants and defaults does {module} set at its top level?",
        ((("grep", {"pattern": ASSIGNMENT, "path": path}),),),
        f"These are the top-level assignments of {module}.",
    )
    yield Turn(
        f"Which classes and functions does {module} define, and what does it raise?",
        (
            (
                ("grep", {"pattern": r"^(class|def|async def) ", "path": path}),
                ("grep", {"pattern": r"^\s+raise ", "path": path}),
            ),
        ),
        f"Those are the definitions of {module} and the errors it raises.",
    )
    yield Turn(
        f"Read on in {module}: what comes after its beginning?",
        (
            (("read_file", {"path": path, "start": 61, "lines": 70}),),
            (("grep", {"pattern": r"\b(TODO|XXX|FIXME|deprecated|bpo-\d+|gh-\d+)\b", "path": path}),),
        ),
        f"I have read the next part of {module}, and its notes to maintainers.",
    )
