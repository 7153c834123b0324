"""The command as a process: its address, its refusals, and how it ends."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from inspecting import make_store, started


def refused(*arguments: object) -> str:
    command = [sys.executable, "-m", "siltstone", "inspect", *map(str, arguments), "--no-open"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return result.stderr


def test_it_prints_an_address_with_a_token_and_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    with started(place, "--session", "work") as (server, address):
        page, _, token = address.partition("#token=")
        assert page.startswith("http://127.0.0.1:")
        assert page.endswith("/session?session=work")
        assert len(token) == 43
        with pytest.raises(urllib.error.HTTPError) as locked:
            urllib.request.urlopen(page)
        assert locked.value.code == 401
        locked.value.close()
        server.send_signal(signal.SIGINT)
        assert server.wait(300) in (0, -signal.SIGINT, 130)


def test_it_is_reached_at_no_other_address_of_the_machine(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    with started(place) as (_, address):
        port = int(address.split(":")[2].partition("/")[0])
        for host in ("127.0.0.2", "::1"):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with pytest.raises(OSError), socket.socket(family) as other:  # noqa: PT011 - refused, or no such address
                other.connect((host, port))


def test_what_cannot_be_inspected_is_told_in_a_sentence(tmp_path: Path) -> None:
    place = make_store(tmp_path / "store")
    assert "nothing at" in refused(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no store" in refused(tmp_path / "empty")
    assert "no session 'nobody'" in refused(place, "--session", "nobody")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is in use" in refused(place, "--port", port)


def test_a_store_of_a_newer_version_and_one_that_is_damaged_are_told_and_stay_as_they_are(tmp_path: Path):
    for name, change in (("newer", "PRAGMA user_version = 99"), ("damaged", None)):
        place = make_store(tmp_path / name)
        file = place / "memory" / "memory.sqlite3"
        if change is None:
            data = bytearray(file.read_bytes())
            data[:16] = b"not a database!!"
            file.write_bytes(data)
        else:
            connection = sqlite3.connect(file)
            connection.execute(change)
            connection.commit()
            connection.close()
        before = file.read_bytes()
        assert str(place) in refused(place) or "memory.sqlite3" in refused(place)
        assert file.read_bytes() == before


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    hidden = (
        "import sys; sys.modules['starlette'] = None; sys.argv = ['siltstone', 'inspect', sys.argv[1]]; "
        "from siltstone.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", hidden, str(place)], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 2
    assert "pip install 'siltstone[ui]'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_browser_is_led_by_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    place = make_store(tmp_path / "store")
    script = tmp_path / "browser"
    seen = tmp_path / "seen"
    script.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"\necho "$1" > {seen}\nstat -c %a "$file" >> {seen}\n'
        f'cat "$file" >> {seen}\n'
    )
    script.chmod(0o755)
    command = [sys.executable, "-m", "siltstone", "inspect", str(place), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BROWSER": f"{script} %s"}
    ) as server:
        assert server.stdout is not None
        try:
            text = ""
            while not text.endswith("}\n"):
                text += server.stdout.readline()
            address = json.loads(text)["address"]
            while not seen.exists() or address not in seen.read_text():
                assert server.poll() is None
            url, mode = seen.read_text().splitlines()[:2]
            assert url.startswith("file://")
            assert "token" not in url
            assert mode == "600"
            with pytest.raises(urllib.error.HTTPError) as locked:  # it answers, and so hears of an interrupt
                urllib.request.urlopen(address.partition("#")[0])
            locked.value.close()
            server.send_signal(signal.SIGINT)
            server.wait(300)
        finally:
            server.kill()
