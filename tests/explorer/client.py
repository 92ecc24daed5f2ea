"""A tab without a page: what it sends is up to the test."""

import json
from contextlib import ExitStack

from websockets.sync.client import connect

PATIENCE = 120.0  # seconds: a first run compiles
SETTING = {"components": 7, "rho": 0.3, "tolerance": 0.1, "view": "coordinates"}
ENDS = [[-1.0, 0.3], [2.0, 0.0]]
CERTAIN = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
SHOWN = {"setting": SETTING, "ends": ENDS, "spreads": CERTAIN}


class Client:
    def __init__(self, explorer, *, token=None, origin=None, host=None, queue=16):
        own = f"http://127.0.0.1:{explorer.port}"
        token = explorer.address.split("/")[-2] if token is None else token
        headers = {} if host is None else {"Host": host}
        opening = connect(
            f"ws://127.0.0.1:{explorer.port}/{token}/socket",
            origin=own if origin is None else origin,
            additional_headers=headers,
            max_size=None,
            max_queue=queue,
            proxy=None,
        )
        self.kept = ExitStack()
        self.socket = self.kept.enter_context(opening)
        self.serial = 0
        self.welcome = self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.kept.close()

    def hear(self, patience=PATIENCE):
        return json.loads(self.socket.recv(patience))

    def say(self, kind, **fields):
        self.serial += 1
        self.socket.send(json.dumps({"kind": kind, "serial": self.serial, **fields}))

    def ask(self, kind, **fields):
        self.say(kind, **fields)
        return self.answer()

    def answer(self):
        """The next message that is no progress."""
        while (heard := self.hear())["kind"] == "progress":
            pass
        return heard
