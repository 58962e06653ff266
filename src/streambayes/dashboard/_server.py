"""The server of the live page: on this machine alone unless told otherwise, and reading nothing but runs."""

import contextlib
import dataclasses
import errno
import hmac
import ipaddress
import json
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Self, final
from urllib.parse import parse_qs, urlencode

try:
    import uvicorn
    from anyio import sleep, to_thread
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.requests import Request
    from starlette.responses import (
        JSONResponse,
        PlainTextResponse,
        RedirectResponse,
        Response,
        StreamingResponse,
    )
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError:
    _missing = (
        "the live page needs starlette, uvicorn and plotly: pip install 'streambayes[dashboard]'"
    )
    raise ImportError(_missing) from None

from streambayes.dashboard._follow import Folder, Followed
from streambayes.reports._report import asset, fill_page, plotly_script

__all__ = ["Dashboard"]

_PORT = 8350
_PAUSE = 0.15
"""Seconds between looks at a run's file."""
_BEAT = 10.0
"""Seconds after which a line is sent where there is no news, so that a lost connection is noticed."""
_SHORTEST = 8
_SILENCE = 1.0
"""Seconds without a question after which those who are connected have all that they want."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@final
class Dashboard:
    """Serves the live page of a folder in the background, for as long as its ``with`` block lasts.

    Args:
        folder: Where ``run(record=folder)`` writes, or a folder of such folders; it need not be there yet.
        host: The address to listen on. Another one than this machine's own needs a token.
        port: The port; by default 8350, or a free one where that is taken.
        token: A word of at least 8 letters that visitors have to give, as ``?token=...`` in the address.
        **drift: Settings of ``DriftMonitor``: ``false_alarms``, ``min_change``, ``seasonal``.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        token: str | None = None,
        **drift: Any,
    ) -> None:
        is_local = _is_loopback(host)
        if token is None and not is_local:
            message = (
                f"the live page on {host} could be seen by others: give a token, such as "
                f"{secrets.token_urlsafe(12)}, or leave host out"
            )
            raise ValueError(message)
        if token is not None and len(token) < _SHORTEST:
            message = f"token must have at least {_SHORTEST} letters, got {len(token)}"
            raise ValueError(message)
        if Path(folder).is_file():
            message = f"{folder} is a file; give the folder that run(..., record=folder) writes to"
            raise NotADirectoryError(message)
        self._folder = Folder(Path(folder), drift)
        self._visitors: list[_Visitor] = []
        self._plotly = plotly_script()
        self._socket = _listening(host, port)
        self._host, self._token = host, token
        self.port: int = self._socket.getsockname()[1]
        self._guard = _Guard(self._app(), token, self.port, is_local=is_local)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._guard,
                log_level="warning",
                timeout_graceful_shutdown=1,
                lifespan="off",
                ws="none",
            )
        )
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where the page is."""
        host = self._host
        if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - all addresses have no name of their own
            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        query = "" if self._token is None else "?" + urlencode({"token": self._token})
        return f"http://{shown}:{self.port}/{query}"

    def serve(self) -> None:
        """Serve until the program is interrupted."""
        self._server.run(sockets=[self._socket])

    def wait_until_seen(self, most: float = 60.0) -> None:
        """Wait until all who are connected have seen all of the run that they look at; at most so many seconds.

        Args:
            most: Seconds after which those who are connected and ask for nothing are not waited for.
        """
        end = time.monotonic() + most
        while time.monotonic() < end and self._thread is not None and self._thread.is_alive():
            is_silent = time.monotonic() - self._guard.asked >= _SILENCE
            if is_silent and all(one.has_seen for one in list(self._visitors)):
                return
            time.sleep(0.05)

    def __enter__(self) -> Self:
        if self._thread is not None:
            message = "this Dashboard has been served already; make another one"
            raise RuntimeError(message)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()

    def _app(self) -> Starlette:
        files: dict[str, tuple[str, Callable[[], str]]] = {
            "/": ("text/html", _page),
            "/page.js": ("text/javascript", lambda: asset("page.js")),
            "/page.css": ("text/css", lambda: asset("page.css")),
            "/plotly.js": ("text/javascript", lambda: self._plotly),
        }
        routes = [
            Route(path, _file(kind, text), methods=["GET"]) for path, (kind, text) in files.items()
        ]
        routes += [
            Route("/runs", self._runs, methods=["GET"]),
            Route("/overview", self._overview, methods=["GET"]),
            Route("/block", self._block, methods=["GET"]),
            Route("/live", self._live, methods=["GET"]),
        ]
        return Starlette(routes=routes)

    async def _runs(self, request: Request) -> Response:
        wanted = request.query_params.get("search", "")
        return JSONResponse(await to_thread.run_sync(self._folder.search, wanted))

    async def _overview(self, request: Request) -> Response:
        run = await self._run(request)
        if run is None:
            return _unknown()
        await to_thread.run_sync(run.advance)
        asking = [
            one for one in self._visitors if one.run is run and one.knows and not one.has_seen
        ]
        told = await to_thread.run_sync(run.overview)
        if asking:  # whichever it is of those who know of the end
            asking[0].has_seen = True
        return JSONResponse(told)

    async def _block(self, request: Request) -> Response:
        run = await self._run(request)
        if run is None:
            return _unknown()
        number = request.query_params.get("number", "")
        try:
            if not number.isdecimal():
                raise IndexError  # noqa: TRY301 - one answer for all that are no numbers of a block
            return JSONResponse(await to_thread.run_sync(run.block, int(number)))
        except (IndexError, ValueError):
            return PlainTextResponse("There is no block of that number.", 404)

    async def _live(self, request: Request) -> Response:
        run = await self._run(request)
        if run is None:
            return _unknown()
        return StreamingResponse(
            self._news(run), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _news(self, run: Followed) -> AsyncIterator[str]:
        """News whenever there are some; a connection that breaks is opened again by the page."""
        yield "retry: 1000\n\n"
        seen, spoke = None, time.monotonic()
        visitor = _Visitor(run)
        self._visitors.append(visitor)
        try:
            while not self._server.should_exit:
                version = await to_thread.run_sync(run.advance)
                if version != seen:
                    news = await to_thread.run_sync(run.news)
                    yield f"data: {json.dumps(news, allow_nan=False)}\n\n"
                    seen, spoke = version, time.monotonic()
                    visitor.knows = news["ended"] is not None and news["reading"] is None
                    visitor.has_seen = False
                elif time.monotonic() - spoke > _BEAT:
                    yield ": still here\n\n"
                    spoke = time.monotonic()
                await sleep(0.0 if run.is_behind else _PAUSE)
        finally:
            self._visitors.remove(visitor)

    async def _run(self, request: Request) -> Followed | None:
        try:
            return await to_thread.run_sync(self._folder.run, request.query_params.get("run", ""))
        except (KeyError, OSError, ValueError):
            return None


@dataclasses.dataclass(eq=False)
class _Visitor:
    """Somebody who is told of a run: whether of its end, and whether all was asked for since."""

    run: Followed
    knows: bool = False
    has_seen: bool = False


@final
class _Guard:
    """Lets nobody in without the token, and no page of another site by a name that it has made up."""

    def __init__(self, app: ASGIApp, token: str | None, port: int, *, is_local: bool) -> None:
        self._app = app
        self._token = token
        self._cookie = f"streambayes-{port}"
        self._is_local = is_local
        self.asked = 0.0  # when something was last asked or answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._refusal(scope)
        if answer is None:
            self.asked = time.monotonic()
            await self._app(scope, receive, _with_headers(send))
            self.asked = time.monotonic()
        else:
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        name = headers.get("host", "").rsplit(":", 1)[0].strip("[]")
        if self._is_local and not _is_loopback(name):
            return PlainTextResponse("This page is served to this machine alone.", 403)
        if self._token is None:
            return None
        cookies: SimpleCookie = SimpleCookie()
        with contextlib.suppress(Exception):
            cookies.load(headers.get("cookie", ""))
        held = cookies[self._cookie].value if self._cookie in cookies else ""
        if hmac.compare_digest(held.encode(), _hidden(self._token).encode()):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[0]
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return PlainTextResponse("Add ?token=... to the address, with the token.", 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, _hidden(self._token), httponly=True, samesite="strict")
        return answer


def _hidden(token: str) -> str:
    """What stands for the token in a cookie, whatever letters it has."""
    return hmac.new(token.encode(), b"streambayes", "sha256").hexdigest()


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending


def _file(kind: str, text: Callable[[], str]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        del request
        return Response(text(), media_type=kind)

    return answer


def _page() -> str:
    return fill_page(
        policy="",
        title="streambayes",
        head='<link rel="stylesheet" href="page.css">',
        story="",
        footer="Live, from the records of the run.",
        tail='<script src="plotly.js"></script>\n<script src="page.js"></script>',
    )


def _unknown() -> Response:
    return PlainTextResponse("There is no run of that name.", 404)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket on the port that is wanted; on a free one where none was asked for and the usual is taken."""
    if port is not None and not 0 <= port < 65536:
        message = f"port must lie between 0 and 65535, got {port}"
        raise ValueError(message)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tries = [_PORT, 0] if port is None else [port]
    for number in tries:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, number))
            made.listen(128)
        except OSError as error:
            made.close()
            if number == tries[-1]:
                reason = error.strerror or str(error)
                is_port = error.errno in {errno.EADDRINUSE, errno.EACCES}
                message = (
                    f"cannot listen on {host}, port {number} ({reason.lower()}); choose another "
                    f"{'port' if is_port else 'host'}"
                )
                raise OSError(message) from None
        else:
            return made
    raise AssertionError
