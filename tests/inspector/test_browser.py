"""The pages in Chromium: the steps of a reader, and pages full of markup, which must do nothing.

Debian has the browser and its driver as ``chromium`` and ``chromium-driver``. Nothing is downloaded.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from conversations import small
from inspecting import make_store, started
from siltstone import Session
from siltstone.testing import ScriptedModel

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PATIENCE = 120  # seconds: longer than any machine needs
EVIL = '"><script>pwned=1;alert(1)</script><img src=x onerror="pwned=1;alert(2)"><svg onload=alert(3)></pre>'

pytestmark = pytest.mark.skipif(
    (BROWSER is None or DRIVER is None) and not (os.environ.get("CI") == "true" and sys.platform == "linux"),
    reason="there is no Chromium: apt-get install chromium chromium-driver",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    """The browser that all tests of a worker share: a test asks for ``driver``."""
    assert BROWSER is not None
    assert DRIVER is not None, "CI installs chromium and chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--lang=en-US",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = begun(options)
    try:
        yield made
    finally:
        made.quit()


def begun(options: webdriver.ChromeOptions) -> webdriver.Chrome:
    """The browser, in three tries: on a busy machine its start may take longer than its driver waits."""
    for _ in range(2):
        with suppress(WebDriverException):
            return webdriver.Chrome(options=options, service=Service(DRIVER))
    return webdriver.Chrome(options=options, service=Service(DRIVER))


@pytest.fixture
def driver(chromium: webdriver.Chrome) -> webdriver.Chrome:
    """The browser with one blank tab, of which nothing has been logged."""
    return blank(chromium)


def blank(browser: webdriver.Chrome) -> webdriver.Chrome:
    """Leaves one new tab. What earlier pages had goes with theirs: streams that are tried anew, the zone, the
    paper, the network that was taken away, and what they have yet to log.
    """
    earlier = browser.window_handles
    browser.switch_to.new_window("tab")
    tab = browser.current_window_handle
    for each in earlier:
        browser.switch_to.window(each)
        browser.close()
    browser.switch_to.window(tab)
    until(browser, lambda: browser.window_handles == [tab] and loaded(browser))
    assert browser.current_url == "about:blank"
    browser.get_log("browser")
    return browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def base(chromium: webdriver.Chrome, place: Path) -> Iterator[str]:
    """The address of an inspector that the browser may see."""
    with opened(blank(chromium), place) as address:
        yield address


@contextmanager
def opened(driver: webdriver.Chrome, place: Path, *options: str) -> Iterator[str]:
    """An inspector, unlocked in the browser: its address without the token."""
    with started(place, *options) as (_, address):
        driver.get(address)
        until(
            driver,
            lambda: one(driver, "body").get_attribute("data-page") not in (None, "unlock") and loaded(driver),
        )
        assert "token" not in driver.current_url
        driver.get_log("browser")  # the locked page itself is an answer of 401
        yield address.partition("/#")[0]


def until(driver: webdriver.Chrome, holds: Callable[[], Any]) -> Any:
    """Waits until *holds* gives something; a page that is being replaced is asked again."""
    return WebDriverWait(driver, PATIENCE, 0.05, [WebDriverException]).until(lambda _: holds())


def loaded(driver: webdriver.Chrome) -> bool:
    """Whether the page is whole, and its script has run."""
    return bool(driver.execute_script("return document.readyState === 'complete'"))


def comes(driver: webdriver.Chrome, selector: str) -> None:
    """Waits until a page with *selector* is whole: a key that is pressed before is pressed in vain."""
    until(driver, lambda: one(driver, selector) and loaded(driver))


def one(driver: webdriver.Chrome, selector: str) -> Any:
    return driver.find_element(By.CSS_SELECTOR, selector)


def press(driver: webdriver.Chrome, *keys: str) -> None:
    webdriver.ActionChains(driver).send_keys(*keys).perform()


def errors(driver: webdriver.Chrome) -> list[Any]:
    return [each for each in driver.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]


def pages(session: str, compaction: int = 1) -> list[str]:
    name = quote(session, safe="")
    return [
        "/",
        f"/session?session={name}&window=4000",
        f"/compaction?session={name}&id={compaction}",
        f"/log?session={name}&start=0",
        f"/log?session={name}&view=now",
        f"/message?session={name}&seq=1",
        f"/search?session={name}&q=question+script",
        f"/facts?session={name}&history=1",
        "/health?check=1",
    ]


def script(name: str) -> str:
    """A script that looks at a page."""
    return (Path(__file__).parent / f"{name}.js").read_text("utf-8")


def media(driver: webdriver.Chrome, **features: str) -> None:
    known = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": known})


def width(driver: webdriver.Chrome, pixels: int) -> None:
    size = {"width": pixels, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def test_a_browser_without_the_token_sees_how_to_get_in(driver: webdriver.Chrome, place: Path) -> None:
    with started(place) as (_, address):
        page = address.partition("/#")[0]
        driver.get(f"{page}/session?session=work")
        assert "This page is locked" in one(driver, "main").text
        driver.get("about:blank")
        driver.get(f"{page}/#token=guess")
        until(driver, lambda: "not the inspector's" in one(driver, "main").text)
        driver.get("about:blank")
        driver.get(f"{page}/session?session=work{address[address.index('#') :]}")
        comes(driver, "#time-title")
        assert driver.current_url == f"{page}/session?session=work"
        assert driver.execute_script("return scrollY") == 0, "it begins where a page begins"


def test_texts_full_of_markup_and_scripts_are_texts(driver: webdriver.Chrome, tmp_path: Path) -> None:
    with Session.open(tmp_path, EVIL, namespace=EVIL, policy=small(), model=ScriptedModel([EVIL])) as session:
        for number in range(14):
            session.append(
                {"role": "user", "content": f"{EVIL} question {number}", "name": EVIL[:40]},
                {
                    "role": "assistant",
                    "content": EVIL,
                    "tool_calls": [
                        {
                            "id": f"{EVIL}{number}",
                            "type": "function",
                            "function": {"name": EVIL, "arguments": EVIL},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": f"{EVIL}{number}", "content": EVIL},
            )
        session.compact()
        session.save(EVIL, context=EVIL, source=EVIL, tags=[EVIL])
    with opened(driver, tmp_path) as base:
        for page in pages(EVIL):
            driver.get(base + page)
            until(driver, lambda: one(driver, ".live.on"))
            with pytest.raises(NoAlertPresentException):
                _ = driver.switch_to.alert.text
            assert driver.execute_script("return typeof pwned") == "undefined", page
            assert driver.execute_script("return document.querySelectorAll('script').length") == 1, page
            assert (
                driver.execute_script("return document.querySelectorAll('img, [onerror], [onload]').length")
                == 0
            )
            assert errors(driver) == [], page
            if page != "/health?check=1":
                assert "<script>pwned=1" in driver.execute_script("return document.body.textContent"), page


WRITER = """
import sys
from siltstone import Session
with Session.open(sys.argv[1], "work") as session:
    print("ready", flush=True)
    for line in sys.stdin:
        session.append({"role": "user", "content": line.strip()})
        print("done", flush=True)
"""


def test_what_another_process_writes_shows_by_itself_and_after_the_inspector_was_away(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    place = make_store(tmp_path)
    command = [sys.executable, "-c", WRITER, str(place)]
    with (
        opened(driver, place) as base,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer,
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None

        def write(text: str) -> None:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(f"{text}\n")
            writer.stdin.flush()
            writer.stdout.readline()

        assert writer.stdout.readline() == "ready\n"
        driver.get(f"{base}/log?session=work")
        until(driver, lambda: one(driver, ".live.on"))
        one(driver, "input[name=start]").click()  # what is held stays held
        write("first from elsewhere")
        until(driver, lambda: "first from elsewhere" in one(driver, "main").text)
        assert driver.execute_script("return document.activeElement.name") == "start"
        driver.get(f"{base}/session?session=work")
        until(driver, lambda: one(driver, ".live.on"))
        turns = len(driver.find_elements(By.CSS_SELECTOR, ".turns tbody tr"))
        write("second from elsewhere")
        until(driver, lambda: len(driver.find_elements(By.CSS_SELECTOR, ".turns tbody tr")) == turns + 1)
        driver.get(base)
        until(driver, lambda: one(driver, ".live.on"))
        counted = 'tr[data-session="work"] [data-figure="messages"]'
        before = int(until(driver, lambda: one(driver, counted).get_attribute("value")))
        write("third from elsewhere")
        until(driver, lambda: int(one(driver, counted).get_attribute("value")) == before + 1)
        # A connection that is lost comes back.
        driver.execute_cdp_cmd("Network.enable", {})
        gone = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", gone)
        driver.execute_script("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('pageshow'))")
        until(driver, lambda: one(driver, ".live.off"))
        write("fourth from elsewhere")
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**gone, "offline": False})
        until(driver, lambda: int(one(driver, counted).get_attribute("value")) == before + 2)
        driver.execute_cdp_cmd("Network.disable", {})
        writer.stdin.close()
        writer.wait(PATIENCE)


def test_an_exported_file_works_without_network(driver: webdriver.Chrome, place: Path, tmp_path: Path):
    file = tmp_path / "copy.html"
    command = [sys.executable, "-m", "siltstone", "inspect", str(place), "--export", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    driver.get_log("browser")
    driver.execute_cdp_cmd("Network.enable", {})
    gone = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", gone)
    try:
        driver.get(file.as_uri())
        assert one(driver, "#sessions").is_displayed()
        driver.find_element(By.CSS_SELECTOR, '#sessions a[href="#s0"]').click()
        until(driver, lambda: one(driver, "#s0").is_displayed())
        assert not one(driver, "#sessions").is_displayed()
        assert one(driver, "#s0 .plot polyline").get_attribute("points")
        driver.get(f"{file.as_uri()}#s0-c1")
        until(driver, lambda: one(driver, "#s0-c1").is_displayed())
        driver.get(f"{file.as_uri()}#s0-log-m5")
        until(driver, lambda: one(driver, "#s0-log-m5").is_displayed())
        assert "UTC" not in one(driver, "#s0-log-m5 time").text
        colour = driver.execute_script("return getComputedStyle(document.querySelector('.brand')).fontWeight")
        assert colour == "600"  # the style is there
        assert errors(driver) == []
    finally:
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**gone, "offline": False})
        driver.execute_cdp_cmd("Network.disable", {})


def test_keys_alone_lead_from_the_list_to_a_hit(driver: webdriver.Chrome, base: str) -> None:
    driver.get(f"{base}/?words=work")
    press(driver, "j", Keys.ENTER)
    comes(driver, "#time-title")
    press(driver, "j")
    assert driver.execute_script("return document.activeElement.classList.contains('item')")
    press(driver, Keys.ENTER)
    comes(driver, "#change-title")
    heading = one(driver, "#change-title").text
    press(driver, "[")
    until(driver, lambda: one(driver, "#change-title").text != heading and loaded(driver))
    press(driver, "2")
    comes(driver, "#log-title")
    press(driver, "j", "j")
    assert driver.execute_script("return document.activeElement.matches('.message')")
    press(driver, "3")
    comes(driver, "#search-title")
    press(driver, "/")
    press(driver, "question", Keys.ENTER)
    comes(driver, ".hit")
    press(driver, "?")
    until(driver, lambda: one(driver, "#keys").get_attribute("open") is not None)
    press(driver, Keys.ESCAPE)
    until(driver, lambda: one(driver, "#keys").get_attribute("open") is None)
    driver.get(f"{base}/session?session=work")
    press(driver, Keys.TAB)
    assert driver.execute_script("return document.activeElement.className") == "skip"
    driver.execute_script("document.querySelector('.plot').focus()")
    press(driver, Keys.ARROW_RIGHT)
    assert "tokens were in context" in one(driver, ".chart-said").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_are_readable_in_dark_and_in_light(driver: webdriver.Chrome, base: str, scheme: str) -> None:
    media(driver, prefers_color_scheme=scheme)
    try:
        for page in pages("work"):
            driver.get(base + page)
            ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
            shade = sum(int(each) for each in ground[ground.index("(") + 1 : -1].split(",")[:3]) / 3
            assert (shade < 64) == (scheme == "dark")
            assert driver.execute_script(script("contrast")) == [], page
        one(driver, '[data-act="theme"]').click()  # a reader's own choice wins, and stays
        driver.get(base)
        assert driver.execute_script("return document.documentElement.dataset.theme") != scheme
    finally:
        driver.execute_script("localStorage.clear()")
        media(driver)


def test_every_page_fits_400_pixels(driver: webdriver.Chrome, base: str) -> None:
    width(driver, 400)
    try:
        for page in pages("work"):
            driver.get(base + page)
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 400, (page, wide)
            assert one(driver, "main").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_has_a_name_for_who_does_not_see_it(driver: webdriver.Chrome, base: str) -> None:
    for page in pages("work"):
        driver.get(base + page)
        assert driver.execute_script(script("names")) == [], page


def test_times_are_in_the_readers_zone(driver: webdriver.Chrome, base: str) -> None:
    shown = []
    try:
        for zone in ("Asia/Tokyo", "America/New_York"):
            driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
            driver.get(f"{base}/message?session=work&seq=1")
            shown.append(one(driver, ".message time").text)
            assert "UTC" in one(driver, ".message time").get_attribute("title")
    finally:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    assert shown[0] != shown[1]
