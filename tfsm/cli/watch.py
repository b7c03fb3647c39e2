"""`tfsm watch`: a page on this computer that follows runs in progress."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfsm.cli.common import print_json, print_message
from tfsm.cli.options import SharedOptions, shared_options
from tfsm.errors import TfsmError, import_optional

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette

    from tfsm.report.live import StudyProgress, Watcher

ADDRESS: Final = "127.0.0.1"
MAX_SHARE: Final = 0.1
"""The share of the time that is spent drawing figures, which the runs need more."""
KEEP_ALIVE_SECONDS: Final = 15.0
TICK_SECONDS: Final = 0.1
"""How long Ctrl-C may have to wait."""
# Drawings have their styles in attributes. The only script is the page's own.
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; script-src 'nonce-{nonce}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@shared_options("json")
def watch(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Run directory, study, or folder of them; also of finished ones")
    ],
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 for any that is free", show_default=False)
    ] = 0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser")] = False,
    interval: Annotated[float, typer.Option(metavar="S", min=0.1, max=3600, help="Seconds between two looks")] = 1.0,
    *,
    options: SharedOptions,
) -> None:
    """Follow runs in the browser while they evolve.

    Serves a page on 127.0.0.1 until Ctrl-C: solved runs, best fitness, divergence, speed and time left, then the
    report. Only those who have the address with its token can read it, and nothing can be changed through it.
    """
    import secrets
    import signal

    from tfsm.report.live import Watcher, check_directory

    for module in ("starlette", "uvicorn", "matplotlib"):
        import_optional(module, extra="watch", purpose="tfsm watch")
    check_directory(directory)
    import uvicorn

    token = secrets.token_urlsafe(32)
    with _listen(port) as listener:
        host = f"{ADDRESS}:{listener.getsockname()[1]}"
        url = f"http://{host}/?token={token}"
        feed = LiveFeed(Watcher(directory), interval)
        app = make_app(feed, token=token, hosts=_allowed_hosts(host), is_ending=lambda: server.should_exit)
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,  # it would print the token
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        # Until the server has its own handler; an interrupt of Python would leave its coroutine behind.
        signal.signal(signal.SIGINT, lambda *_: setattr(server, "should_exit", True))
        with suppress(KeyboardInterrupt):
            if options.json:
                print_json({"url": url, "directory": directory})
            else:
                print_message("Press Ctrl-C to stop.")
                print(f"watching {directory}: {url}")
            sys.stdout.flush()
            if open_:
                import webbrowser

                webbrowser.open(url)
            server.run(sockets=[listener])
        print_message("stopped")


def _listen(port: int) -> socket.socket:
    import socket

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen()  # so that the address works as soon as it is printed
    except OSError as error:
        listener.close()
        raise TfsmError(f"--port {port}: {error.strerror or error}") from None
    return listener


def _allowed_hosts(host: str) -> frozenset[str]:
    return frozenset({host, host.replace(ADDRESS, "localhost")})


@dataclass
class _Report:
    """The part of the page with a study's results, as drawn last."""

    version: int = 0
    html: str = ""
    final: bool = False
    drawn_from: object = None
    drawn_at: float = 0.0
    seconds: float = 0.0


@dataclass(eq=False)
class LiveFeed:
    """What the page shows, for any number of readers. Files are read when a reader asks, and not more often.

    Args:
        watcher: reads the directory.
        interval: seconds between two readings.
    """

    watcher: Watcher
    interval: float
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _read_at: float | None = field(default=None, init=False)
    _studies: Sequence[StudyProgress] = field(default=(), init=False)
    _reports: dict[str, _Report] = field(default_factory=dict, init=False)

    def read(self) -> Sequence[StudyProgress]:
        """Return the current progress."""
        with self._lock:
            now = time.monotonic()
            if self._read_at is None or now - self._read_at >= 0.9 * self.interval:
                self._studies, self._read_at = self.watcher.read(), now
            return self._studies

    def draw(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Return the version of each study's results, and their event; they are drawn again where they changed."""
        with self._lock:
            for study in self._studies:
                report = self._reports.setdefault(study.id, _Report())
                self._draw_study(study, report)
            return {
                id: (report.version, {"id": id, "html": report.html, "final": report.final})
                for id, report in self._reports.items()
                if report.version
            }

    def render_report(self) -> bytes | None:
        """Return the report of all runs that have ended, or None if there is none."""
        from tfsm.analysis.results import load_studies
        from tfsm.report.findings import analyze_study
        from tfsm.report.html import render_page

        with self._lock:
            experiments = [item for study in self._studies for item in study.experiments]
            directories = [item.directory for item in experiments if item.ended]
            findings = [analyze_study(study) for study in load_studies(directories, strict=False)]
            return render_page(findings) if findings else None

    def _draw_study(self, study: StudyProgress, report: _Report) -> None:
        from tfsm.report.html import render_live_report

        state = (study.is_active, [(item.status, item.evaluations, item.solved) for item in study.experiments])
        began = time.monotonic()
        rested = began - report.drawn_at >= max(self.interval, report.seconds / MAX_SHARE)
        if state == report.drawn_from or (report.version and study.is_active and not rested):
            return
        findings, report.final, problem = None, False, ""
        try:
            findings, report.final = self.watcher.analyze(study)
            if findings is None:
                return
        except TfsmError as error:
            problem = str(error)
        report.html = render_live_report(findings, study.id, complete=report.final, problem=problem)
        report.version += 1
        report.drawn_from, report.drawn_at = state, time.monotonic()
        report.seconds = report.drawn_at - began


def format_event(name: str, data: object) -> str:
    """Return a server-sent event; data never has a line break, because JSON escapes it."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def stream_events(feed: LiveFeed, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield events: `status` and `report` when they change, `problem` if nothing can be read, and `end`."""
    import asyncio

    from starlette.concurrency import run_in_threadpool

    from tfsm.report.html import make_live_title, render_live_status

    def describe() -> dict[str, Any]:
        studies, top = feed.read(), feed.watcher.top
        parts = [{"id": study.id, "domain": study.domain, "html": render_live_status(study, top)} for study in studies]
        return {"title": make_live_title(studies), "studies": parts}

    yield "retry: 1000\n\n"
    sent: dict[str, object] = {}
    last_sent = time.monotonic()
    while not is_ending():
        events = []
        try:
            status = await run_in_threadpool(describe)
            if sent.get("status") != status:
                sent["status"] = status
                yield format_event("status", status)
            for id, (version, report) in (await run_in_threadpool(feed.draw)).items():
                if sent.get(id) != version:
                    sent[id] = version
                    events.append(format_event("report", report))
        except (TfsmError, OSError) as error:
            if sent.get("problem") != str(error):
                sent["problem"] = str(error)
                events.append(format_event("problem", {"text": str(error)}))
        if not events and time.monotonic() - last_sent > KEEP_ALIVE_SECONDS:
            events.append(": still here\n\n")
        for event in events:
            last_sent = time.monotonic()
            yield event
        due = time.monotonic() + feed.interval
        while time.monotonic() < due and not is_ending():
            await asyncio.sleep(TICK_SECONDS)
    yield format_event("end", {})


def make_app(feed: LiveFeed, *, token: str, hosts: frozenset[str], is_ending: Callable[[], bool]) -> Starlette:
    """Return the web application.

    Args:
        feed: what it shows.
        token: what the address has to contain.
        hosts: the values of the Host header that are accepted; others are names that lead here by DNS rebinding.
        is_ending: returns True when open connections have to be closed.
    """
    import secrets

    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route

    from tfsm.report.html import render_live_page

    async def show_page(request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        studies = await run_in_threadpool(feed.read)
        html = render_live_page(studies, top=feed.watcher.top, nonce=nonce, report_url=f"report?token={token}")
        return HTMLResponse(html, headers={"content-security-policy": POLICY.format(nonce=nonce)})

    async def show_report(request: Request) -> Response:
        await run_in_threadpool(feed.read)
        page = await run_in_threadpool(feed.render_report)
        return HTMLResponse(page) if page else PlainTextResponse("no run has ended yet\n", 404)

    async def send_events(request: Request) -> Response:
        return StreamingResponse(stream_events(feed, is_ending), media_type="text/event-stream")

    async def explain(request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", 500)

    return Starlette(
        routes=[Route("/", show_page), Route("/report", show_report), Route("/events", send_events)],
        middleware=[Middleware(Guard, token=token, hosts=hosts)],
        exception_handlers={TfsmError: explain, OSError: explain},
    )


class Guard:
    """Refuses requests without the token, or under another host name, and sets the headers of all responses."""

    def __init__(self, app: Any, *, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token.encode(), hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        from starlette.responses import PlainTextResponse

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(key.encode(), value.encode()) for key, value in HEADERS.items()]
            await send(message)

        if scope["type"] == "http" and self._is_allowed(scope):
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "http":
            text = "forbidden: open the address that tfsm watch printed, with its token\n"
            await PlainTextResponse(text, 403)(scope, receive, send_with_headers)

    def _is_allowed(self, scope: Any) -> bool:
        import secrets
        from urllib.parse import parse_qs

        named = [value.decode("latin-1").lower() for key, value in scope["headers"] if key == b"host"]
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        # Comparing takes the same time whatever is given, so that the token cannot be guessed letter by letter.
        right = len(tokens) == 1 and secrets.compare_digest(tokens[0].encode(), self._token)
        return len(named) == 1 and named[0] in self._hosts and right
