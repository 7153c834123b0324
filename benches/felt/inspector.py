"""The waits of an agent while its session is open in a browser, and the delay until a page shows its words.

Rounds of three kinds take turns: an agent appends, prepares and appends, with a pause as of a fast model.
"served" is an inspector beside it, with a client that does what a page does and draws nothing: it reads the
stream of events, and asks for the timeline when that has changed, and less often where an answer takes long.
"shown" is the same with a Chromium that shows the timeline: where there are few cores, its drawing takes from
the agent what a person's browser would take as well. A page counts as showing a message when its text is in
the log that the browser has.

    python benches/felt/inspector.py [--rounds 4] [--turns 300] [--no-browser]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from siltstone import CompactionConfig, Session, ThresholdCompactor

PAUSE = 0.02  # seconds of a model that answers at once
SHOWN = 20  # messages whose way to the page is measured


def main() -> None:
    """Prints what each side took, and how long a page took to follow."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--no-browser", action="store_true", help="leave out what needs a Chromium")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.client:
        look(asked.client)
        return
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as session:
        rounds(session, 0, 50)  # what is made at the first call is made
        sides: dict[str, list[list[float]]] = {"alone": [], "served": [], "shown": []}
        for place in range(asked.rounds):
            sides["alone"].append(rounds(session, place, asked.turns))
            with listened(Path(folder)):
                sides["served"].append(rounds(session, place, asked.turns))
            if not asked.no_browser:
                sides["alone"].append(rounds(session, place, asked.turns))
                with watched(Path(folder), "session"):
                    sides["shown"].append(rounds(session, place, asked.turns))
        for name, found in sides.items():
            if not found:
                continue
            half, most = best(found, 0.5), best(found, 0.99)
            print(f"{name:<7} p50 {half:.2f} ms, p99 {most:.2f} ms, best of {len(found)}")
        step = 1 if asked.no_browser else 2
        tell("served", sides["alone"][::step], sides["served"])
        if asked.no_browser:
            return
        tell("shown", sides["alone"][1::2], sides["shown"])
        with watched(Path(folder), "log") as driver:
            ways = [shown_after(driver, session, number) for number in range(SHOWN)]
        half, most = statistics.median(ways) * 1000, max(ways) * 1000
        print(f"a message shows after {half:.0f} ms, {most:.0f} ms at most")


def opened(folder: Path) -> Session:
    """A session with a policy that compacts now and then."""
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=6_000))
    return Session.open(folder, "agent", policy=policy, context_window=8_000)


def rounds(session: Session, place: int, turns: int) -> list[float]:
    """The milliseconds of each turn that were ours."""
    took = []
    for turn in range(turns):
        began = time.perf_counter()
        session.append({"role": "user", "content": f"Question {place}.{turn}: " + "what of the valve? " * 20})
        session.prepare()
        session.append({"role": "assistant", "content": f"Answer {turn}: " + "it holds. " * 40})
        took.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE)
    return took


def tell(name: str, alone: list[list[float]], beside: list[list[float]]) -> None:
    """Prints what a side took beside the round before it, for the median and for the 99th percentile."""
    for share, word in ((0.5, "p50"), (0.99, "p99")):
        pairs = [at(b, share) / at(a, share) for a, b in zip(alone, beside, strict=True)]
        said = ", ".join(f"{pair:.2f}" for pair in pairs)
        print(f"{word} {name} / alone: {said}; median {statistics.median(pairs):.2f}")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """An inspector of the session: its address with the token."""
    command = [sys.executable, "-m", "siltstone", "inspect", str(folder), "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += server.stdout.readline()
        try:
            yield json.loads(text)["address"]
        finally:
            server.terminate()


@contextmanager
def listened(folder: Path) -> Iterator[None]:
    """An inspector, and a client in a process of its own."""
    with served(folder) as address:
        command = [sys.executable, __file__, "--client", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            client.stdout.readline()  # it has the first page
            time.sleep(1)  # what is made at the first look is made
            try:
                yield
            finally:
                client.terminate()


def look(address: str) -> None:
    """Does what a page does: listens, and asks for itself anew when the stamp is another one."""
    base, _, token = address.partition("/#token=")
    host = base.removeprefix("http://")
    door = HTTPConnection(host)
    headers = {"Content-Type": "application/json", "Origin": base}
    door.request("POST", "/unlock", json.dumps({"token": token}), headers)
    answer = door.getresponse()
    answer.read()
    cookie = {"Cookie": (answer.getheader("set-cookie") or "").partition(";")[0]}
    stream = HTTPConnection(host)
    stream.request("GET", "/live?session=agent", headers=cookie)
    seen, rest = "", 0.0
    for line in stream.getresponse():
        if not line.startswith(b"data: ") or line.decode() == seen or time.perf_counter() < rest:
            continue
        seen, began = line.decode(), time.perf_counter()
        door.request("GET", "/session?session=agent", headers=cookie)
        door.getresponse().read()
        took = time.perf_counter() - began
        rest = time.perf_counter() + min(0.65, 9 * took)
        print("shown", flush=True)


@contextmanager
def watched(folder: Path, page: str) -> Iterator[webdriver.Chrome]:
    """An inspector, and a browser that shows a page of the session."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    with served(folder) as address:
        base, _, token = address.partition("/#")
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            driver.get(f"{base}/{page}?session=agent#{token}")
            while not driver.execute_script("return Boolean(document.querySelector('.live.on'))"):
                time.sleep(0.05)
            time.sleep(1)  # what is made at the first look is made
            yield driver
        finally:
            driver.quit()


def shown_after(driver: webdriver.Chrome, session: Session, number: int) -> float:
    """Seconds from the end of an append to its text on the page."""
    words = f"marker {number} of this round"
    session.append({"role": "user", "content": words})
    began = time.perf_counter()
    while not driver.execute_script("return document.body.textContent.includes(arguments[0])", words):
        time.sleep(0.01)
    took = time.perf_counter() - began
    time.sleep(0.5)
    return took


def at(took: list[float], share: float) -> float:
    """The value below which *share* of them are."""
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


def best(found: list[list[float]], share: float) -> float:
    """The least of the rounds."""
    return min(at(took, share) for took in found)


if __name__ == "__main__":
    main()
