"""A web page, served locally, on which one drags two points and watches the geodesic between them."""

import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from html import escape
from typing import Any

from probgeo._checks import as_whole_number


class Explorer:
    """A page that is being served: `address` says where.

    `with` and `stop()` end it, `wait()` waits until it has ended, by itself when no tab has been open for `linger`
    seconds: reloading takes one or two. In a notebook it shows itself in a frame.
    """

    def __init__(self, scene: Any, port: int = 0, linger: float = 20.0) -> None:
        try:
            import uvicorn
            from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

            from probgeo.explorer.protocol import longest
            from probgeo.explorer.server import Application
        except ImportError as error:
            raise ImportError(f"the explorer needs {error.name}: pip install 'probgeo[explorer]'") from error
        listening = _bound(as_whole_number("port", port, 0))
        self.port = listening.getsockname()[1]
        try:
            self._application = Application(scene, self.port, linger, self._end)
        except BaseException:
            listening.close()
            raise
        config = uvicorn.Config(
            self._application.app,
            log_level="warning",
            access_log=False,
            ws=WebSocketsSansIOProtocol,
            ws_per_message_deflate=False,  # it never leaves the machine
            ws_max_size=4 * longest(scene),  # in bytes
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        while not self._server.started and self.running:
            time.sleep(0.01)
        if not self._server.started:
            listening.close()
            raise OSError(f"the explorer did not start on port {self.port}")

    @property
    def address(self) -> str:
        """The address with its token: anyone on this machine who knows it can use the page."""
        return f"http://127.0.0.1:{self.port}/{self._application.token}/"

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the page has been closed; Ctrl-C ends it at once."""
        try:
            while self.running:
                self._thread.join(0.2)
        finally:
            self.stop()

    def stop(self, patience: float = 10.0) -> None:
        """Stop serving, and wait up to `patience` seconds for that."""
        self._end()
        self._thread.join(patience)

    def __enter__(self) -> "Explorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Explorer({self.address if self.running else 'ended'})"

    def _repr_html_(self) -> str:
        address = escape(self.address, quote=True)
        return (
            f'<p><a href="{address}" target="_blank" rel="noopener">{address}</a></p>'
            f'<iframe src="{address}" width="100%" height="760" title="probgeo explorer" '
            'style="border: 1px solid #8886; border-radius: 8px"></iframe>'
        )

    def _end(self) -> None:
        self._server.should_exit = True


def explore(
    X: Any,
    manifold: Any = None,
    *,
    colour: Any = None,
    components: int | None = None,
    decode: Callable | None = None,
    faces: Any = None,
    port: int = 0,
    open_browser: bool | None = None,
    wait: bool | None = None,
) -> Explorer:
    """Open a page in the browser with data, a metric, and a geodesic whose ends can be dragged.

    It needs `pip install 'probgeo[explorer]'`, and is served to this machine only.

    Parameters
    ----------
    X : array (P, D), or DataFrame
        D is at least 2; of more, the page shows two coordinates or two principal components.
    manifold : Manifold or metric, optional
        By default a metric is learned from a mixture of Gaussians (`metrics.from_mixture`), and the page can change how
        many.
    colour : array (P,), optional
        What points are coloured by at first; the page offers the columns of X too.
    components : int, optional
        Gaussians to begin with; by default as many as BIC prefers.
    decode : function of rows (m, D), optional
        To images (m, h, w) with values from 0 to 1, or, with `faces`, to vertices (m, V, 3) of
        meshes: what is shown under the cursor and along the geodesic.
    faces : array of int (F, 3), optional
    port : int
        0 for any that is free.
    open_browser : bool, optional
        By default, unless in a notebook, where the result shows itself in a frame.
    wait : bool, optional
        Whether to return only after the page was closed: by default in a script, which would end and the page with it.

    Returns
    -------
    Explorer

    Examples
    --------
    >>> from probgeo import data, explore
    >>> with explore(data.two_moons(100), components=5, open_browser=False, wait=False) as page:
    ...     page.address.startswith("http://127.0.0.1:")
    True
    """
    from probgeo.explorer.scene import as_scene

    page = Explorer(as_scene(X, manifold, colour, decode, faces, components), port)
    notebook, interactive = "ipykernel" in sys.modules, hasattr(sys, "ps1")
    if open_browser or (open_browser is None and not notebook):
        webbrowser.open(page.address)
    if wait or (wait is None and not (notebook or interactive)):
        print(f"exploring at {page.address}", "Ctrl-C ends it", sep="\n", file=sys.stderr)
        page.wait()
    return page


def _bound(port: int) -> socket.socket:
    """A socket that listens on the loopback address only."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":  # a port of an explorer that has just ended is free
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise OSError(f"port {port} cannot be used ({error}): choose another one, or 0 for any that is free") from error
    listening.listen()
    return listening
