"""The local server: one page and one WebSocket, for those who know the token in the address.

Each tab has three workers, so that neither a mean nor a background blocks geodesics. Of every kind
of message only the latest waits, and nothing is computed before the answer to the last one has been
taken: a slow tab gets fewer answers, not older ones.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from probgeo.explorer.pictures import decoder
from probgeo.explorer.protocol import RefusedError, parsed
from probgeo.explorer.scene import Scene
from probgeo.explorer.session import Session, Stopped, as_text

NAMES = ("127.0.0.1", "localhost")
MOST_TABS = 8
WORKERS = ("live", "scenery", "long")
BUSY_WITH = {"metric": "scenery", "fan": "scenery", "learn": "long", "mean": "long"}  # else "live"
POLICY_VIOLATION = 1008
TOO_MANY_ERRORS = 100  # of one tab: no page of ours makes that many


class OnlyLocal:
    """Refuses what was not asked of this address, or by a page from elsewhere.

    A name that someone else's server resolves to 127.0.0.1 is stopped by `Host`, another page in
    the same browser by `Origin`.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in NAMES}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        websocket = scope["type"] == "websocket"
        known = len(hosts) == 1 and self.hosts.issuperset(hosts)
        if (
            known
            and len(origins) in ((1,) if websocket else (0, 1))
            and self.origins.issuperset(origins)
        ):
            return await self.app(scope, receive, send)
        if websocket:
            return await WebSocket(scope, receive, send).close(POLICY_VIOLATION)
        refusal = PlainTextResponse("This page is for this machine only.", 403)
        await refusal(scope, receive, send)


class Explorer:
    """The application, and how many tabs are open.

    Attributes
    ----------
    token : str
        Random; part of every address.
    on_tabs : function of the number of open tabs
        Called when that changes.
    """

    def __init__(self, scene: Scene, port: int, on_tabs: Callable[[int], None]) -> None:
        self.scene, self.port, self.on_tabs = scene, port, on_tabs
        self.decoder = decoder(scene)
        self.token = secrets.token_urlsafe(16)
        self.tabs = 0
        routes = [
            Route("/{token}/", self.page),
            WebSocketRoute("/{token}/socket", self.socket),
        ]
        application = Starlette(routes=routes)
        application.router.redirect_slashes = False
        self.app = OnlyLocal(application, port)

    def knows(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())

    async def page(self, request: Any) -> Any:
        if not self.knows(request.path_params["token"]):
            return PlainTextResponse("Not found.", 404)
        nonce = secrets.token_urlsafe(16)
        return HTMLResponse(page_text(nonce), headers=page_headers(nonce, self.port))

    async def socket(self, websocket: WebSocket) -> None:
        if not self.knows(websocket.path_params["token"]) or self.tabs >= MOST_TABS:
            return await websocket.close(POLICY_VIOLATION)
        await websocket.accept()
        async with self._counted():
            with contextlib.suppress(WebSocketDisconnect):
                await Tab(websocket, Session(self.scene, self.decoder)).talk()

    @contextlib.asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self.tabs += 1
        self.on_tabs(self.tabs)
        try:
            yield
        finally:
            self.tabs -= 1
            self.on_tabs(self.tabs)


class Tab:
    """What goes on between one tab and its session."""

    def __init__(self, websocket: WebSocket, session: Session) -> None:
        self.websocket, self.session = websocket, session
        self.sending = asyncio.Lock()
        self.waiting: dict[str, dict[str, Any]] = {worker: {} for worker in WORKERS}
        self.arrived = {worker: asyncio.Event() for worker in WORKERS}
        self.latest: dict[str, int] = {}
        self.errors = 0

    async def talk(self) -> None:
        await self.send(self.session.welcome())
        workers = [asyncio.create_task(self.work(worker)) for worker in WORKERS]
        reader = asyncio.create_task(self.read())
        try:
            done, _ = await asyncio.wait([reader, *workers], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.session.wanted.clear()
            for task in (reader, *workers):
                task.cancel()
            await asyncio.gather(reader, *workers, return_exceptions=True)

    async def read(self) -> None:
        """Take messages as they come; a later one of a kind replaces one that still waits."""
        while True:
            received = await self.websocket.receive()
            if received["type"] == "websocket.disconnect":
                raise WebSocketDisconnect
            try:
                message = parsed(received.get("text"), self.session.scene)
                self.accept(message)
            except RefusedError as error:
                await self.refuse(str(error))

    def accept(self, message: dict[str, Any]) -> None:
        kind, serial = message["kind"], message["serial"]
        if serial <= self.latest.get(kind, -1):
            raise RefusedError(f"serial of {kind} must be above {self.latest[kind]}, got {serial}")
        self.latest[kind] = serial
        if kind == "stop":
            self.session.wanted.clear()
            self.waiting["long"].pop("mean", None)
            return
        worker = BUSY_WITH.get(kind, "live")
        self.waiting[worker][kind] = message
        self.arrived[worker].set()

    async def work(self, worker: str) -> None:
        """Answer what waits, one at a time, in a thread."""
        loop = asyncio.get_running_loop()

        def tell(news: dict[str, Any]) -> None:
            asyncio.run_coroutine_threadsafe(self.send(news), loop)

        while True:
            await self.arrived[worker].wait()
            self.arrived[worker].clear()
            while waiting := self.waiting[worker]:
                message = waiting.pop(next(iter(waiting)))
                if message["kind"] == "mean":
                    self.session.wanted.set()
                try:
                    text = await asyncio.to_thread(self._answer, message, tell)
                except Stopped:
                    text = as_text({"kind": "stopped", "serial": message["serial"]})
                except Exception as error:  # noqa: BLE001 - a user's metric may raise anything
                    known = isinstance(error, ValueError | ArithmeticError)
                    name = "" if known else f"{type(error).__name__}: "
                    await self.refuse(name + str(error), message)
                    continue
                await self.send_text(text)

    def _answer(self, message: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> str:
        return as_text(self.session.answer(message, tell))

    async def refuse(self, reason: str, message: dict[str, Any] | None = None) -> None:
        """Tell why, and end the conversation with those who do not learn from it."""
        about = {"about": message["kind"], "serial": message["serial"]} if message else {}
        await self.send({"kind": "error", "text": reason, **about})
        self.errors += message is None
        if self.errors >= TOO_MANY_ERRORS:
            await self.websocket.close(POLICY_VIOLATION)
            raise WebSocketDisconnect

    async def send(self, answer: dict[str, Any]) -> None:
        await self.send_text(as_text(answer))

    async def send_text(self, text: str) -> None:
        async with self.sending:
            await self.websocket.send_text(text)


def page_text(nonce: str) -> str:
    """The page with its style and script inside."""
    here = files("probgeo.explorer").joinpath("page")
    text = here.joinpath("page.html").read_text(encoding="utf-8")
    for mark, names in (("STYLE", STYLES), ("SCRIPT", SCRIPTS)):
        parts = (here.joinpath(name).read_text(encoding="utf-8") for name in names)
        text = text.replace(f"/* {mark} */", "\n".join(parts))
    return text.replace("NONCE", nonce)


STYLES = ("page.css", "picture.css")
SCRIPTS = ("state.js", "picture.js", "panel.js", "export.js", "page.js")


def page_headers(nonce: str, port: int) -> dict[str, str]:
    """Nothing may be loaded, sent or framed but by this machine."""
    policy = (
        "default-src 'none'",
        f"script-src 'nonce-{nonce}'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        " ".join(["connect-src", *(f"ws://{name}:{port}" for name in NAMES)]),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors http://localhost:* http://127.0.0.1:*",  # a notebook
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
