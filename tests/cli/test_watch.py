"""`tfsm watch`: who may read the page, what it sends, and the page in a real browser during a run."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.helpers.browser import CONTRASTS, PHONE, WIDE, needs_browser
from tests.helpers.browser import browser as browser
from tests.helpers.commands import tfsm, tfsm_process
from tests.helpers.outcomes import write_run
from tfsm.cli.watch import HEADERS

pytest.importorskip("starlette", reason="needs the extra watch")
pytest.importorskip("uvicorn", reason="needs the extra watch")

ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
EVIL = "<script>document.title = 'broken'</script>"
SECONDS = 120
"""How long a busy machine may take."""


@contextmanager
def serve(directory: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command, and yield the process and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tfsm", "watch", str(directory), "--interval", "0.2", *options],
        env=ENVIRON,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, process.communicate(timeout=30)
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], object], problem: str, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)


def fetch(url: str, path: str | None = None, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers and the content of a response; `path` replaces the path and query of the URL."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS)
    try:
        connection.request(method, path or f"{parts.path}?{parts.query}", headers=headers)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


def read_events(url: str, count: int) -> list[tuple[str, Any]]:
    """Return the first events of the stream."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS)
    connection.request("GET", f"/events?{parts.query}")
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    events = []
    fields: dict[str, str] = {}
    while len(events) < count:
        line = response.readline().decode()
        assert line, "the stream has ended"
        if line == "\n":
            if "event" in fields:
                events.append((fields["event"], json.loads(fields["data"])))
            fields = {}
        else:
            key, _, value = line.rstrip("\n").partition(": ")
            fields[key] = value
    connection.close()
    return events


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("runs")
    write_run(top / "a")
    write_run(top / "b", mutation=EVIL)
    write_run(top / "c", domain="other", status="interrupted")
    return top


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serve(folder) as (_, address):
        yield address


def test_the_page_needs_the_token(url: str) -> None:
    token = url.partition("token=")[2]
    assert len(token) >= 43, "32 random bytes"
    assert fetch(url)[0] == 200
    for path in ("/", "/events", "/report", "/nothing"):
        for query in ("", "?token=", f"?token={token[:-1]}", f"?token={token}x", f"?token={token}&token={token}"):
            status, headers, text = fetch(url, path + query)
            assert (status, text.count("\n")) == (403, 1)
            assert token not in text
            assert headers["cache-control"] == "no-store"
    assert fetch(url, f"/nothing?token={token}")[0] == 404


def test_each_start_has_another_token_and_port(folder: Path, url: str) -> None:
    with serve(folder) as (_, other):
        assert urlsplit(other).port != urlsplit(url).port
        assert urlsplit(other).query != urlsplit(url).query


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", ""])
def test_another_host_name_is_refused(url: str, host: str) -> None:
    assert fetch(url, Host=host.format(port=urlsplit(url).port))[0] == 403


def test_the_name_of_this_computer_is_accepted(url: str) -> None:
    assert fetch(url, Host=f"localhost:{urlsplit(url).port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_possible(url: str, method: str) -> None:
    assert fetch(url, method=method)[0] == 405


def test_only_this_computer_can_connect(url: str) -> None:
    # Another address of this machine: on Linux all of 127.0.0.0/8 is.
    with pytest.raises(OSError, match=r"refused|assign|unreachable|timed out"):
        socket.create_connection(("127.0.0.2", urlsplit(url).port or 0), timeout=5)


def test_responses_may_not_be_stored_framed_or_run_other_scripts(url: str) -> None:
    _, headers, text = fetch(url)
    assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    nonce = policy["script-src"].removeprefix("'nonce-").removesuffix("'")
    assert text.count("<script") == text.count(f'<script nonce="{nonce}">') == 1
    assert fetch(url)[1]["content-security-policy"] != headers["content-security-policy"]
    assert "server" not in headers


def test_the_page_shows_every_directory_and_escapes_names(url: str) -> None:
    text = fetch(url)[2]
    for expected in ("made-up", "other", "finished", "interrupted", "&lt;script&gt;document.title"):
        assert expected in text
    assert EVIL not in text


def test_events_are_one_status_then_a_report_per_domain(url: str) -> None:
    (first, status), *others = read_events(url, 3)
    assert first == "status"
    assert status["title"] == "3/6 solved, ended: made-up, other"
    assert [study["domain"] for study in status["studies"]] == ["made-up", "other"]
    assert {name for name, _ in others} == {"report"}
    reports = {data["id"]: data["html"] for _, data in others}
    assert all(data["final"] for _, data in others)
    assert "Two-sided significance tests" in reports["study-1"]
    assert "Unfinished: control (interrupted" in reports["study-2"]
    assert EVIL not in reports["study-1"]


def test_the_report_is_a_page_of_its_own(url: str) -> None:
    status, _, text = fetch(url, f"/report?{urlsplit(url).query}")
    assert status == 200
    assert "<h1>Report on made-up and other</h1>" in text
    assert "<script" not in text


def test_a_new_run_appears_without_a_restart(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    with serve(tmp_path) as (_, address):
        assert "beta" not in fetch(address)[2]
        write_run(tmp_path / "b", domain="beta")
        wait_until(lambda: "beta" in fetch(address)[2], "the new run is not shown")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
@pytest.mark.parametrize("reader", [False, True], ids=["no page is open", "a page is open"])
def test_ctrl_c_ends_it_cleanly(folder: Path, reader: bool) -> None:
    with serve(folder) as (process, address):
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS)
        if reader:
            connection.request("GET", f"/events?{parts.query}")
            response = connection.getresponse()
            response.readline()
        process.send_signal(signal.SIGINT)
        rest = response.read().decode() if reader else ""
        out, err = process.communicate(timeout=SECONDS)
        connection.close()
        assert process.returncode == 0
        assert (out, err) == ("", "Press Ctrl-C to stop.\nstopped\n")
        if reader:
            assert rest.endswith("event: end\ndata: {}\n\n")


def test_json_has_the_address(folder: Path) -> None:
    command = [sys.executable, "-m", "tfsm", "watch", str(folder), "--json"]
    with subprocess.Popen(command, env=ENVIRON, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.kill()
    record = json.loads("".join(lines))
    assert record["directory"] == str(folder)
    assert "/?token=" in record["url"]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words, message in {
            ("missing",): "missing: no such directory",
            ("empty",): "empty: no runs here",
            ("run/run.json",): "no such directory",
            ("run", "--port", port): f"--port {port}: Address already in use",
        }.items():
            result = tfsm("watch", *words, cwd=tmp_path)
            assert result.returncode == 2
            assert result.stderr.startswith("error: ")
            assert message in result.stderr
            assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_extra_is_one_line(tmp_path: Path, missing: str) -> None:
    (tmp_path / f"{missing}.py").write_text("raise ImportError('not here')")
    write_run(tmp_path / "run")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    result = tfsm_process("watch", "run", cwd=tmp_path, PYTHONPATH=path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: tfsm watch needs {missing}: pip install 'tfsm[watch]'\n"


def open_page(browser: Any, url: str, **options: Any) -> tuple[Any, list[str]]:
    """Open the page, and collect its errors and the hosts that it asks."""
    context = browser.new_context(**{"viewport": WIDE, **options})
    tab = context.new_page()
    problems: list[str] = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    local = f"http://{urlsplit(url).netloc}/"
    tab.on(
        "request", lambda request: None if request.url.startswith((local, "data:")) else problems.append(request.url)
    )
    tab.goto(url)
    return tab, problems


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, WIDE], ids=["phone", "desktop"])
def test_the_page_fits_and_can_be_read(browser: Any, url: str, scheme: str, viewport: dict[str, int]) -> None:
    tab, problems = open_page(browser, url, viewport=viewport, color_scheme=scheme)
    tab.wait_for_selector("#study-1-report figure", timeout=SECONDS * 1000)
    tab.wait_for_selector("#study-2-report figure", timeout=SECONDS * 1000)
    assert tab.locator("#connection").inner_text() == "Live."
    assert tab.title() == "3/6 solved, ended: made-up, other"
    assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert [pair for pair in tab.evaluate(CONTRASTS) if pair[1] < 4.5] == []
    assert problems == []
    tab.context.close()


@pytest.mark.slow
@needs_browser
def test_the_page_says_when_the_server_has_ended(browser: Any, folder: Path) -> None:
    with serve(folder) as (process, address):
        tab, _ = open_page(browser, address)
        tab.wait_for_function("document.getElementById('connection').textContent == 'Live.'", timeout=SECONDS * 1000)
        process.send_signal(signal.SIGINT)
        tab.wait_for_selector("#connection.lost", timeout=SECONDS * 1000)
        assert "no longer updates" in tab.locator("#connection").inner_text()
        tab.context.close()


@needs_browser
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_the_page_follows_a_run_that_is_killed_and_resumed(browser: Any, tmp_path: Path) -> None:
    start = ["run", "parity", "--mutation", "control", "--runs", "2", "--evaluations", "20000", "--set", "stop=budget"]
    start += ["--set", "log_every=500", "--checkpoint-every", "1000", "--quiet", "--out", "run"]
    write_run(tmp_path / "finished-before")
    processes = []

    def run(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tfsm", *words]
        output = (tmp_path / "output").open("ab")
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stdout=output, stderr=output))
        output.close()
        return processes[-1]

    with serve(tmp_path) as (_, address):
        tab, problems = open_page(browser, address)

        def shows(status: str) -> None:
            tab.wait_for_selector(f"#study-2 tr.{status}", timeout=SECONDS * 1000)

        def count() -> int:
            cell = tab.locator("#study-2-status-table tbody td.number").nth(1)
            return int(cell.inner_text().replace(",", ""))

        try:
            first = run(*start)
            shows("running")
            wait_until(lambda: count() >= 3000, "the page does not follow the run")
            first.kill()  # SIGKILL
            first.wait()
            shows("killed")
            before = count()
            assert before < 40_000
            second = run("run", "--resume", "run", "--quiet")
            shows("running")
            tab.wait_for_selector("#study-2-report figure", timeout=SECONDS * 1000)
            assert "Comparisons follow at the end" in tab.locator("#study-2-report").inner_text()
            assert tab.locator("#study-2-settings").count() == 0
            assert "made-up" in fetch(address, f"/report?{urlsplit(address).query}")[2]
            wait_until(lambda: count() > before, "the page does not follow the resumed run")
            shows("finished")
            assert second.wait(timeout=SECONDS) == 0
            wait_until(lambda: count() == 40_000, "not all evaluations are shown")
            tab.wait_for_selector("#study-2-settings", timeout=SECONDS * 1000)  # the whole report
            assert tab.locator("#connection").inner_text() == "Live."
            assert problems == []
        finally:
            for process in processes:
                process.kill()
                process.wait()
