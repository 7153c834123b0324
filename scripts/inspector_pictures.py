"""Takes the pictures of the inspector for README.md and docs, of an agent that works while they are taken.

python scripts/inspector_pictures.py           writes docs/screens/inspector*.png

The agent is that of ``siltstone demo``. ``inspector.png`` is a recording: a PNG of several frames. It needs
Chromium and its driver: apt-get install chromium chromium-driver
"""

from __future__ import annotations

import base64
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from siltstone import MemoryStore
from siltstone.errors import StoreOpenError

FOLDER = Path(__file__).parent.parent / "docs" / "screens"
WIDTH, HEIGHT, TALL = 1080, 700, 1000  # of a frame of the recording; a picture is taller
WINDOW = 16_000
LIVE = 8  # frames of the agent at work
STEP = 0.9  # seconds between two of them
HELD = 3.0  # seconds that a page is shown which nothing changes
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def main() -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "agent-data")
        with working(store) as agent, inspected(store) as address, browser() as driver:
            frames = recorded(driver, address, store, agent)
            agent.wait()
            pictures(driver, address.partition("/#")[0], store)
    (FOLDER / "inspector.png").write_bytes(animated(frames))


@contextmanager
def working(store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An agent that reads the standard library, from the moment on when it has said something."""
    command = [
        sys.executable,
        "-m",
        "siltstone",
        "demo",
        "--store",
        str(store),
        "--window",
        str(WINDOW),
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
        while not compacted(store):
            time.sleep(0.05)
        yield agent


def compacted(store: Path) -> list[str]:
    """The sessions of *store* that were compacted."""
    try:
        with MemoryStore.open(store, read_only=True) as held:
            return [each.session_id for each in held.sessions().sessions if each.compactions]
    except StoreOpenError:  # the agent has not begun
        return []


@contextmanager
def inspected(store: Path) -> Iterator[str]:
    """An inspector of *store*, and its address."""
    command = [sys.executable, "-m", "siltstone", "inspect", str(store), "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += server.stdout.readline()
        yield json.loads(text)["address"]
        server.terminate()


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Debian's Chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    resize(driver, HEIGHT)
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: webdriver.Chrome, height: int) -> None:
    """Makes the page so high."""
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def recorded(
    driver: webdriver.Chrome, address: str, store: Path, agent: subprocess.Popen[bytes]
) -> list[tuple[bytes, float]]:
    """Frames, each with the seconds that it is shown: the agent at work, one compaction, a search."""
    page, _, token = address.partition("/#")
    (session,) = compacted(store)
    driver.get(f"{page}/session?session={session}#{token}")
    found(driver, ".live.on")
    frames = []
    for _ in range(LIVE):
        frames.append((shot(driver), STEP))
        time.sleep(STEP)
        if agent.poll() is not None:
            break
    newest = driver.find_elements(By.CSS_SELECTOR, "#compactions tbody th a")[0]
    driver.get(newest.get_attribute("href") or "")
    found(driver, ".block")
    frames.append((shot(driver), HELD))
    driver.get(f"{page}/search?session={session}&q=Which+port+does+smtplib+use+for+SMTP+over+SSL")
    found(driver, ".hit")
    frames.append((shot(driver), HELD))
    return frames


def pictures(driver: webdriver.Chrome, page: str, store: Path) -> None:
    """The timeline, a compaction and a search, when the agent has ended."""
    (session,) = compacted(store)
    with MemoryStore.open(store, read_only=True) as held:
        fourth = held.open_log(session).compactions()[3].compaction_id
    resize(driver, TALL)
    for name, path, selector in (
        ("timeline", f"/session?session={session}", ".plot"),
        ("compaction", f"/compaction?session={session}&id={fourth}", ".block"),
        ("search", f"/search?session={session}&q=Which+port+does+smtplib+use+for+SMTP+over+SSL", ".hit"),
    ):
        driver.get(page + path)
        found(driver, selector)
        (FOLDER / f"inspector-{name}.png").write_bytes(shot(driver))


def found(driver: webdriver.Chrome, selector: str) -> None:
    """Waits until the page has something of that kind."""
    WebDriverWait(driver, 30).until(lambda _: driver.find_elements(By.CSS_SELECTOR, selector))


def shot(driver: webdriver.Chrome) -> bytes:
    """The screen of the browser, as a PNG."""
    answer = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": False})
    return base64.b64decode(answer["data"])


def animated(frames: Sequence[tuple[bytes, float]]) -> bytes:
    """PNGs of one size as one PNG of several frames, as its third edition says."""
    head = next(data for kind, data in chunks(frames[0][0]) if kind == b"IHDR")
    width, height = struct.unpack(">II", head[:8])
    made, number = [chunk(b"IHDR", head), chunk(b"acTL", struct.pack(">II", len(frames), 0))], 0
    for place, (picture, seconds) in enumerate(frames):
        parts = list(chunks(picture))
        if next(data for kind, data in parts if kind == b"IHDR") != head:
            raise ValueError("the frames of a recording must be alike in size and kind")
        shown = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, round(seconds * 1000), 1000, 0, 0)
        made.append(chunk(b"fcTL", shown))
        number += 1
        for data in (data for kind, data in parts if kind == b"IDAT"):
            if place == 0:
                made.append(chunk(b"IDAT", data))
            else:
                made.append(chunk(b"fdAT", struct.pack(">I", number) + data))
                number += 1
    return b"".join([SIGNATURE, *made, chunk(b"IEND", b"")])


def chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG: the kind and the data of each."""
    at = len(SIGNATURE)
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        yield picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        at += length + 12


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


if __name__ == "__main__":
    main()
