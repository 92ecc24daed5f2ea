"""The local server: one page and one WebSocket, for those who know the token in the address.

Each tab has three workers, so that neither a mean nor a background blocks geodesics. Of every kind of message only the
latest waits, and nothing is computed before the answer to the last one has been taken: a slow tab gets fewer answers,
not older ones.
"""

import asyncio
import secrets
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.status import WS_1008_POLICY_VIOLATION
from starlette.websockets import WebSocket, WebSocketDisconnect

from probgeo.explorer.protocol import RefusedError, parsed
from probgeo.explorer.scene import Scene
from probgeo.explorer.session import Cancelled, Session, as_text

WORKERS = ("live", "scenery", "long")
BUSY_WITH = {
    **dict.fromkeys(("metric", "fan", "look"), "scenery"),
    **dict.fromkeys(("learn", "mean"), "long"),  # the others: "live"
}
MOST_TABS, MOST_ERRORS = 8, 100  # at a time, and refused messages of one tab: our page never makes as many


class Application:
    """The page of a scene and its tabs; `end` is called when no tab has been open for `linger` seconds.

    `token` is random, and part of every address.
    """

    def __init__(self, scene: Scene, port: int, linger: float, end: Callable[[], None]) -> None:
        self.scene, self.linger, self.end = scene, linger, end
        _ = scene.decoder  # what cannot be drawn is refused before anything is served
        self.token = secrets.token_urlsafe(16)
        self.tabs = 0
        self.ending: asyncio.TimerHandle | None = None
        self.hosts = tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self.app = Starlette(routes=[Route("/{token}/", self.page), WebSocketRoute("/{token}/socket", self.socket)])
        self.app.router.redirect_slashes = False

    def local(self, asked: HTTPConnection, origins: tuple[int, ...]) -> bool:
        """Whether a request names this address as its `Host`, and as its `Origin`, of which it may have `origins` many.

        `Host` stops foreign names that resolve to 127.0.0.1, `Origin` stops other pages in the same browser.
        """
        host, origin = asked.headers.getlist("host"), asked.headers.getlist("origin")
        known = {f"http://{name}" for name in self.hosts}
        return len(host) == 1 and host[0] in self.hosts and len(origin) in origins and known.issuperset(origin)

    def knows(self, asked: HTTPConnection) -> bool:
        """Whether the token is right, compared in constant time."""
        return secrets.compare_digest(asked.path_params["token"].encode(), self.token.encode())

    async def page(self, request: Any) -> Any:
        if not self.local(request, origins=(0, 1)):
            return PlainTextResponse("This page is for this machine only.", 403)
        if not self.knows(request):
            return PlainTextResponse("Not found.", 404)
        nonce = secrets.token_urlsafe(16)
        return HTMLResponse(page_text(nonce), headers=page_headers(nonce, self.hosts))

    async def socket(self, websocket: WebSocket) -> None:
        allowed = self.local(websocket, origins=(1,)) and self.knows(websocket)
        if not allowed or self.tabs >= MOST_TABS:
            return await websocket.close(WS_1008_POLICY_VIOLATION)
        self.tabs += 1
        if self.ending:
            self.ending.cancel()
        try:
            await websocket.accept()
            await Tab(websocket, self.scene).talk()
        except RefusedError:
            await websocket.close(WS_1008_POLICY_VIOLATION)
        except WebSocketDisconnect:
            pass
        finally:
            self.tabs -= 1
            if not self.tabs:
                self.ending = asyncio.get_running_loop().call_later(self.linger, self.end)


class Tab:
    """The conversation between one tab and its session."""

    def __init__(self, websocket: WebSocket, scene: Scene) -> None:
        self.websocket, self.errors_left = websocket, MOST_ERRORS
        loop = asyncio.get_running_loop()

        def tell(news: dict[str, Any]) -> None:
            asyncio.run_coroutine_threadsafe(self.send(as_text(news)), loop)

        self.session = Session(scene, tell)
        self.sending = asyncio.Lock()
        self.waiting: dict[str, dict[str, Any]] = {worker: {} for worker in WORKERS}
        self.arrived = {worker: asyncio.Event() for worker in WORKERS}
        self.latest: dict[str, int] = {}

    async def talk(self) -> None:
        """Talk until the tab is closed, or has sent too many messages that make no sense (`RefusedError`)."""
        await self.send(as_text(self.session.welcome()))
        tasks = [asyncio.create_task(doing) for doing in (self.read(), *map(self.work, WORKERS))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.session.wanted.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self) -> None:
        """Receive messages; a newer one replaces one of its kind that still waits."""
        while True:
            received = await self.websocket.receive()
            if received["type"] == "websocket.disconnect":
                raise WebSocketDisconnect
            try:
                message = parsed(received.get("text"), self.session.scene)
                kind, serial = message["kind"], message["serial"]
                if serial <= (last := self.latest.get(kind, -1)):
                    raise RefusedError(f"serial of {kind} must be above {last}, got {serial}")
            except RefusedError as error:
                await self.send(as_text({"kind": "error", "text": str(error), **error.about}))
                self.errors_left -= 1
                if not self.errors_left:
                    raise
                continue
            self.latest[kind] = serial
            if kind == "stop":
                self.session.wanted.clear()
                if mean := self.waiting["long"].pop("mean", None):
                    await self.send(as_text({"kind": "stopped", "serial": mean["serial"]}))
                continue
            worker = BUSY_WITH.get(kind, "live")
            self.waiting[worker][kind] = message
            self.arrived[worker].set()

    async def work(self, worker: str) -> None:
        """Answer the messages that wait for this worker, one at a time, in a thread."""
        while True:
            await self.arrived[worker].wait()
            self.arrived[worker].clear()
            while waiting := self.waiting[worker]:
                message = waiting.pop(next(iter(waiting)))
                if message["kind"] == "mean":
                    self.session.wanted.set()
                await self.send(await asyncio.to_thread(self.answer, message))

    def answer(self, message: dict[str, Any]) -> str:
        """The answer as text, also if the work was cancelled or failed."""
        kind, serial = message["kind"], message["serial"]
        try:
            answer = {"kind": kind, **self.session.answer(message)}
        except Cancelled:
            answer = {"kind": "stopped"}
        except Exception as error:  # noqa: BLE001 - a user's metric may raise anything
            known = isinstance(error, ValueError | ArithmeticError)
            name = "" if known else f"{type(error).__name__}: "
            answer = {"kind": "error", "about": kind, "text": name + str(error)}
        return as_text({**answer, "serial": serial})

    async def send(self, text: str) -> None:
        async with self.sending:
            await self.websocket.send_text(text)


def page_text(nonce: str) -> str:
    """The page with its style and script inside."""
    page = files("probgeo.explorer").joinpath("page")

    def joined(*names: str) -> str:
        return "\n".join(page.joinpath(name).read_text(encoding="utf-8") for name in names)

    text = joined("page.html").replace("/* STYLE */", joined("page.css", "picture.css"))
    script = joined("state.js", "picture.js", "panel.js", "export.js", "page.js")
    return text.replace("/* SCRIPT */", script).replace("NONCE", nonce)


def page_headers(nonce: str, hosts: tuple[str, ...]) -> dict[str, str]:
    """Headers by which nothing may be loaded from, sent to or framed by other machines."""
    policy = (
        "default-src 'none'",
        f"script-src 'nonce-{nonce}'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        " ".join(["connect-src", *(f"ws://{host}" for host in hosts)]),
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
