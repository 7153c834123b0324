"""Runs sessions of nox, two at a time, and shows the output of each when it ends.

    python scripts/sessions.py --envdir .nox -s adapter server

The arguments are nox's own. A session keeps one core busy, so two take half the time of one after another.
The longest come last in nox's list, and are begun first.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from time import monotonic

WORKERS = 2

Nox = Callable[[Sequence[str]], tuple[int, bytes]]


def nox(arguments: Sequence[str]) -> tuple[int, bytes]:
    """The exit code and the output of nox with *arguments*."""
    command = [sys.executable, "-m", "nox", *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return ran.returncode, ran.stdout


def listed(arguments: Sequence[str], call: Nox = nox) -> list[str]:
    """The names of the sessions that *arguments* choose."""
    code, output = call([*arguments, "--list", "--json"])
    if code:
        raise SystemExit(output.decode("utf-8", "replace"))
    rows = next(line for line in output.splitlines() if line.startswith(b"["))
    return [each["session"] for each in json.loads(rows)]


def environment(arguments: Sequence[str]) -> list[str]:
    """*arguments* without the choice of sessions, which ``-s`` begins and the next option ends."""
    kept: list[str] = []
    is_choice = False
    for each in arguments:
        is_choice = each in ("-s", "--session", "--sessions") or (is_choice and not each.startswith("-"))
        if not is_choice:
            kept.append(each)
    return kept


def main(arguments: Sequence[str], call: Nox = nox) -> int:
    """0 if every session succeeded; the highest exit code of nox otherwise."""
    names = listed(arguments, call)
    if not names:
        print(f"no session for {list(arguments)!r}", file=sys.stderr)
        return 1
    before = environment(arguments)

    def run(name: str) -> tuple[int, bytes, float]:
        began = monotonic()
        return *call([*before, "-s", name]), monotonic() - began

    lines, codes = list[str](), list[int]()
    with ThreadPoolExecutor(WORKERS) as pool:
        running = {pool.submit(run, name): name for name in reversed(names)}
        for done in as_completed(running):
            code, output, seconds = done.result()
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
            codes.append(code)
            lines.append(f"{running[done]}: {'success' if code == 0 else 'FAILED'}, {seconds:.0f} s")
    print(*sorted(lines), sep="\n", flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
