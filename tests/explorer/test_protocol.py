"""The conversation with a running server: every kind of message, and all that must be refused."""

import http.client
import json
import logging
import socket
import struct
import time
from dataclasses import replace

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from probgeo import Gaussian, Manifold, PrincipalGeodesics, data, metrics
from probgeo.explorer import Explorer, explore
from probgeo.explorer.examples import EXAMPLES, moons
from probgeo.explorer.protocol import RefusedError, kinds, longest, parsed
from probgeo.explorer.session import Session
from tests.explorer.client import CERTAIN, ENDS, SETTING, SHOWN, Client

VALID = {
    "geodesic": {**SHOWN, "fine": False},
    "points": {"setting": SETTING, "colour": "moon"},
    "metric": {"setting": SETTING, "box": [-2.0, 3.0, -1.0, 1.5]},
    "fan": {"setting": SETTING, "at": [0.0, 1.0], "reach": 3.0},
    "look": {"setting": SETTING, "at": [0.0, 1.0]},
    "learn": {"components": 3},
    "mean": {"setting": SETTING, "rows": list(range(20))},
    "stop": {},
    "snippet": {**SHOWN, "rows": None},
}


@pytest.fixture(scope="module")
def X():
    return data.two_moons(1000, noise=0.1)


@pytest.fixture(scope="module")
def manifold(X):
    return Manifold(metrics.from_mixture(X, 7, rho=0.3)).with_precision(0.1)


def test_the_welcome_says_what_there_is(client):
    assert client.welcome["kind"] == "welcome"
    assert client.welcome["count"] == 1000
    assert client.welcome["colours"] == ["moon", "x1", "x2"]
    assert client.welcome["decoder"] is None


@pytest.mark.parametrize("fine", [False, True])
def test_a_geodesic_is_that_of_the_library(client, manifold, fine):
    said = client.ask("geodesic", **SHOWN, fine=fine)
    expected = manifold.geodesic(*map(np.array, ENDS))
    assert (said["kind"], said["serial"], said["fine"]) == ("geodesic", client.serial, fine)
    # one and the same curve, from searches that take other ways
    assert said["length"] == pytest.approx(expected.mean_length, rel=1e-4)
    assert said["numerical"] == pytest.approx(expected.measure(source="numerical").std, rel=0.05)
    assert said["converged"]
    path = np.array(said["mean"])
    assert np.allclose(path[[0, -1]], ENDS, atol=1e-4)
    assert np.allclose(path, expected.mean(np.linspace(0, 1, len(path))), atol=1e-2)
    assert len(said["samples"]) == (40 if fine else 16)


def test_rivals_are_told_with_their_gaps(client, manifold):
    said = client.ask("geodesic", **SHOWN, fine=True)
    assert said["others"]
    gaps = [other["gap"] for other in said["others"]]
    assert min(gaps) > 0
    assert gaps == sorted(gaps)
    for other in said["others"]:
        apart = np.abs(np.array(other["path"]) - np.array(said["mean"])).max()
        assert apart > 0.01


def test_uncertain_ends_widen_the_length(client, manifold):
    said = client.ask("geodesic", **{**SHOWN, "spreads": [[0.1, 0.05, 0.3], [0, 0, 0]]}, fine=False)
    c, s = np.cos(0.3), np.sin(0.3)
    turn = np.array([[c, -s], [s, c]])
    a = Gaussian(np.array(ENDS[0]), turn @ np.diag([0.01, 0.0025]) @ turn.T)
    expected = manifold.geodesic(a, np.array(ENDS[1])).measure(source="boundary")
    assert said["boundary"] == pytest.approx(expected.std, rel=1e-3)
    assert said["total"] == pytest.approx(np.hypot(said["boundary"], said["numerical"]))


def test_a_smaller_tolerance_has_smaller_errors(client):
    errors = [
        client.ask("geodesic", **{**SHOWN, "setting": {**SETTING, "tolerance": tolerance}}, fine=False)["numerical"]
        for tolerance in (1.0, 1e-3, 1e-5)
    ]
    assert errors[0] > errors[1] > errors[2] > 0


def test_colours_that_are_missing_do_not_stop_the_others():
    scene = replace(moons(), colours={"age": np.r_[np.nan, np.inf, -np.inf, np.arange(997.0)]})
    message = {"kind": "points", "serial": 1, "setting": SETTING, "colour": "age"}
    values = Session(scene).answer(parsed(json.dumps(message), scene))["values"]
    assert values == [0.0, 0.0, 0.0, *range(997)]


def test_points_have_places_and_colours(client, X):
    said = client.ask("points", **VALID["points"])
    assert np.allclose(said["points"], X, atol=1e-4)
    assert said["values"] == [0.0] * 500 + [1.0] * 500
    assert np.array(said["ends"]).shape == (2, 2)


def test_the_metric_has_shades_and_ellipses(client, manifold):
    said = client.ask("metric", **VALID["metric"])
    rows, columns = said["shape"]
    assert columns > rows  # the box is wider than high
    x, y, along, across, _ = said["ellipses"][0]
    shape = np.linalg.eigvalsh(np.linalg.inv(manifold.metric(np.array([x, y]))))
    assert along / across == pytest.approx(np.sqrt(shape[1] / shape[0]))


def test_a_fan_is_made_of_exponential_maps(client, manifold):
    said = client.ask("fan", **VALID["fan"])
    start = np.array([0.0, 1.0])
    east = np.array([1.0, 0.0])
    expected = manifold.exp(start, 3.0 * east / manifold.norm(start, east)).mean
    # to the tolerance, a tenth of the extent: two standard deviations
    assert np.allclose(said["paths"][0][-1], expected, atol=1e-3)
    assert len(said["paths"]) == len(said["tips"]) == said["converged"] == 24


def test_the_mean_is_that_of_the_selection_and_tells_its_progress(client, X):
    client.say("mean", **VALID["mean"])
    heard = [client.hear()]
    while heard[-1]["kind"] == "progress":
        heard.append(client.hear())
    steps = [line["done"] for line in heard[:-1]]
    assert steps
    assert steps == list(range(1, len(steps) + 1))
    metric = metrics.from_mixture(X, 7, rho=0.3)
    pga = PrincipalGeodesics(metric).fit(X[:20])
    error = np.sqrt(np.diagonal(pga.statistical_cov_))
    assert np.all(np.abs(heard[-1]["mean"] - pga.mean_.mean) < 0.1 * error)
    assert heard[-1]["count"] == 20
    assert len(heard[-1]["ways"]) == 2


def test_a_mean_can_be_stopped(client):
    client.say("mean", setting={**SETTING, "components": 14, "rho": 1.0}, rows=None)
    while client.hear()["kind"] != "progress":
        pass
    client.say("stop")
    assert client.answer()["kind"] in ("stopped", "mean")  # unless it had just been done
    assert client.ask("geodesic", **SHOWN, fine=False)["kind"] == "geodesic"


def test_a_mean_that_still_waits_is_stopped_too(client):
    """Behind the learning of a metric: whoever asked is told, and can ask again."""
    client.say("learn", components=19)
    client.say("mean", **VALID["mean"])
    waiting = client.serial
    client.say("stop")
    said = [client.answer(), client.answer()]
    assert {answer["kind"] for answer in said} in ({"stopped", "learn"}, {"mean", "learn"})
    assert waiting in {answer["serial"] for answer in said}


def test_geodesics_are_answered_while_a_mean_is_computed(client):
    client.say("mean", setting={**SETTING, "rho": 0.29}, rows=None)
    heard = []
    while "mean" not in heard:
        client.say("geodesic", **SHOWN, fine=False)
        while (kind := client.hear()["kind"]) != "geodesic":
            heard.append(kind)
        heard.append(kind)
    assert heard.count("geodesic") > 1


def test_learning_and_another_number_of_components(client):
    assert client.ask("learn", components=3)["components"] == 3
    few = client.ask("geodesic", **{**SHOWN, "setting": {**SETTING, "components": 3}}, fine=False)
    many = client.ask("geodesic", **SHOWN, fine=False)
    assert few["length"] != pytest.approx(many["length"], rel=1e-2)


@pytest.mark.parametrize("spreads", [CERTAIN, [[0.1, 0.05, 0.3], [0, 0, 0]]])
@pytest.mark.parametrize("rows", [None, [3, 1, 2, 1]])
def test_the_snippet_computes_what_is_shown(client, spreads, rows):
    shown = {**SHOWN, "spreads": spreads}
    code = client.ask("snippet", **shown, rows=rows)["code"]
    space = {}
    exec(code, space)
    said = client.ask("geodesic", **shown, fine=True)
    assert space["geodesic"].mean_length == pytest.approx(said["length"], rel=1e-6)
    assert space["geodesic"].length.std == pytest.approx(said["total"], rel=1e-6)
    assert len(space["selected"]) == (1000 if rows is None else 3)


@pytest.mark.parametrize("name", ["digits", "ones", "bodies"])
def test_examples_decode_what_is_under_the_cursor(name):
    scene = EXAMPLES[name]()
    session = Session(scene)
    setting = {**SETTING, "components": scene.components, "view": "principal"}
    message = {"kind": "look", "serial": 1, "setting": setting, "at": [0.0, 0.0]}
    picture = session.answer(parsed(json.dumps(message), scene))["picture"]
    known = scene.decoder
    numbers = 2 * 3756 * 3 if known["kind"] == "mesh" else known["width"] * known["height"]
    assert len(picture) == 4 * -(-numbers // 3)
    space = {}
    exec(f"import numpy as np\nfrom probgeo import data\n{scene.recipe}", space)
    assert np.allclose(space["X"], scene.X)


# --------------------------------------------------------------------------- refused


def test_without_a_decoder_there_is_nothing_to_look_at(client):
    said = client.ask("look", **VALID["look"])
    assert (said["kind"], said["about"]) == ("error", "look")
    assert "nothing to decode" in said["text"]


def test_all_kinds_are_tried_here():
    assert set(VALID) == set(kinds(moons()))


@pytest.mark.parametrize("kind", VALID)
def test_every_field_is_needed_and_no_other(kind):
    scene = moons()
    whole = {"kind": kind, "serial": 1, **VALID[kind]}
    assert parsed(json.dumps(whole), scene)["kind"] == kind
    for name in whole:
        less = {key: value for key, value in whole.items() if key != name}
        with pytest.raises(RefusedError):
            parsed(json.dumps(less), scene)
    with pytest.raises(RefusedError, match="more"):
        parsed(json.dumps({**whole, "more": 1}), scene)


WRONG = [
    ("geodesic", "ends", [[0, 0]]),
    ("geodesic", "ends", [[0, 0], [0, "x"]]),
    ("geodesic", "ends", [[0, 0], [0, 1e12]]),
    ("geodesic", "ends", [[0, 0], [0, True]]),
    ("geodesic", "ends", [[0, 0], [0, 10**400]]),
    ("geodesic", "spreads", [[0, 0, 0], [-1, 0, 0]]),
    ("geodesic", "fine", 1),
    ("geodesic", "serial", -1),
    ("geodesic", "serial", 1.5),
    ("geodesic", "setting", {**SETTING, "components": 0}),
    ("geodesic", "setting", {**SETTING, "components": 1000}),
    ("geodesic", "setting", {**SETTING, "rho": -0.1}),
    ("geodesic", "setting", {**SETTING, "tolerance": 0.0}),
    ("geodesic", "setting", {**SETTING, "view": "../../etc/passwd"}),
    ("geodesic", "setting", [1]),
    ("points", "colour", "x3"),
    ("points", "colour", ["x1"]),
    ("metric", "box", [1, 0, 0, 1]),
    ("fan", "reach", 0),
    ("fan", "at", None),
    ("learn", "components", "7"),
    ("mean", "rows", []),
    ("mean", "rows", [0, 1, 1000]),
    ("mean", "rows", [0, 1, -1]),
    ("mean", "rows", [1, 1, 2]),
    ("mean", "rows", 7),
]


@pytest.mark.parametrize(("kind", "name", "value"), WRONG)
def test_wrong_values_are_refused_by_name(client, kind, name, value):
    said = client.ask(kind, **{**VALID[kind], "serial": client.serial + 1, name: value})
    assert said["kind"] == "error"
    assert name == "serial" or said["about"] == kind  # so the page can ask again
    names = (name, *SETTING) if name == "setting" else (name,)
    assert any(said["text"].startswith(known) for known in names)
    assert len(said["text"]) < 300
    assert client.ask("geodesic", **SHOWN, fine=False)["kind"] == "geodesic"  # it goes on


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '"geodesic"', "[" * 5000, '{"kind": NaN}', '{"kind": ["x"]}', "{}"]
)
def test_what_is_no_message_is_refused(client, text):
    client.socket.send(text)
    assert client.hear()["kind"] == "error"
    client.socket.send(b"\x00\x01")
    assert "text" in client.hear()["text"]


def test_long_messages_are_refused_and_longer_ones_end_the_conversation(client):
    most = longest(moons())
    client.socket.send("x" * (most + 1))
    assert str(most) in client.hear()["text"]
    client.socket.send("x" * (4 * most + 1))
    with pytest.raises(ConnectionClosed):
        client.hear()


def test_who_never_learns_is_not_listened_to(client):
    for _ in range(100):
        client.socket.send("{}")
        assert client.hear()["kind"] == "error"
    with pytest.raises(ConnectionClosed):
        client.hear()


def test_messages_out_of_order_are_refused(client):
    client.serial = 10
    assert client.ask("geodesic", **SHOWN, fine=False)["serial"] == 11
    client.serial = 5
    said = client.ask("geodesic", **SHOWN, fine=False)
    assert said["text"].startswith("serial of geodesic must be above 11")


# --------------------------------------------------------------------------- slow ones, strangers


def test_tabs_do_not_know_of_each_other(explorer):
    with Client(explorer) as one, Client(explorer) as other:
        one.say("geodesic", **SHOWN, fine=True)
        other.say("geodesic", **{**SHOWN, "ends": [ENDS[1], ENDS[1]]}, fine=False)
        assert other.hear()["length"] == 0.0
        assert one.hear()["length"] > 10.0


def test_of_what_waits_only_the_latest_is_answered(client):
    ends = [[ENDS[0], [2.0, 0.001 * k]] for k in range(200)]
    for end in ends:
        client.say("geodesic", **{**SHOWN, "ends": end}, fine=False)
    answers = [client.hear()]
    while answers[-1]["serial"] < client.serial:
        answers.append(client.hear())
    assert answers[-1]["mean"][-1] == ends[-1][1]
    assert len(answers) < len(ends)


def test_a_slow_client_does_not_pile_up_answers(explorer):
    """It reads nothing while it asks for megabytes; others are served, and it gets fresh news."""
    with Client(explorer, queue=1) as slow, Client(explorer) as quick:
        for k in range(400):
            slow.say("geodesic", **SHOWN, fine=bool(k % 2))
            if k % 40 == 0:
                assert quick.ask("geodesic", **SHOWN, fine=False)["kind"] == "geodesic"
        heard = [slow.hear()["serial"]]
        while heard[-1] < slow.serial:
            heard.append(slow.hear()["serial"])
        assert heard == sorted(heard)
        assert len(heard) < 400


def test_who_vanishes_in_the_middle_leaves_nothing_behind():
    """Without a word, while a mean is computed for it and an answer is on its way."""
    heard = logging.Handler(logging.ERROR)
    heard.emit = lambda record: complaints.append(record.getMessage())
    complaints = []
    with Explorer(moons(), linger=0.5) as page:
        logging.getLogger("uvicorn.error").addHandler(heard)
        client = Client(page)
        client.say("mean", setting={**SETTING, "components": 20, "rho": 1.5}, rows=None)
        client.say("geodesic", **SHOWN, fine=True)
        reset = struct.pack("ii", 1, 0)  # closing sends no goodbye, not even that of TCP
        client.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        client.socket.socket.shutdown(socket.SHUT_RD)
        client.socket.socket.close()
        page.wait()
    logging.getLogger("uvicorn.error").removeHandler(heard)
    assert not page.running
    assert complaints == []


def test_strangers_are_turned_away(explorer):
    tries = [
        {"token": "wrong"},
        {"token": explorer.address.split("/")[-2][:-1]},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{explorer.port + 1}"},
        {"host": f"evil.example:{explorer.port}"},
    ]
    for strange in tries:
        with pytest.raises(InvalidStatus) as refusal:
            Client(explorer, **strange)
        assert refusal.value.response.status_code == 403


def test_too_many_tabs_are_turned_away(explorer):
    tabs = [Client(explorer) for _ in range(8)]
    try:
        with pytest.raises(InvalidStatus):
            Client(explorer)
    finally:
        for tab in tabs:
            tab.close()


def fetched(explorer, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", explorer.port, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def test_the_page_is_for_those_with_the_token(explorer):
    path = "/" + explorer.address.split("/", 3)[3]
    status, headers, text = fetched(explorer, path)
    assert status == 200
    assert "<title>probgeo explorer</title>" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert not any(mark in text for mark in ("NONCE", "/* STYLE", "/* SCRIPT", "https://"))
    assert text.count("http://") == text.count("http://www.w3.org/2000/svg")
    for other in ("/", "/wrong/", path + "page.js", path + "../../etc/passwd", "/docs"):
        assert fetched(explorer, other)[0] == 404
    assert fetched(explorer, path, Host="evil.example")[0] == 403
    assert fetched(explorer, path, Host=f"evil.example:{explorer.port}")[0] == 403
    assert fetched(explorer, path, Origin="http://evil.example")[0] == 403
    assert fetched(explorer, path, Host=f"localhost:{explorer.port}")[0] == 200


def test_only_this_machine_is_listened_to(explorer):
    """The socket is bound to the loopback address, whatever other addresses there are."""
    found = {
        info[4][0]
        for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        if not info[4][0].startswith("127.")
    }
    for address in found:
        with socket.socket() as knocking:
            knocking.settimeout(2)
            assert knocking.connect_ex((address, explorer.port)) != 0


def test_tokens_differ(explorer):
    with Explorer(moons()) as other:
        assert other.address.split("/")[-2] != explorer.address.split("/")[-2]


def test_a_busy_port_is_named(explorer):
    with pytest.raises(OSError, match=f"port {explorer.port} cannot be used.*0 for any"):
        Explorer(moons(), explorer.port)
    with pytest.raises(OSError, match="port 70000"):
        Explorer(moons(), 70000)


def test_it_ends_when_the_tab_is_closed_for_a_while():
    page = Explorer(moons(), linger=0.3)
    try:
        with Client(page):
            time.sleep(0.6)
            assert page.running
        with Client(page):  # a reload
            pass
        page.wait()
        assert not page.running
    finally:
        page.stop()


# --------------------------------------------------------------------------- from Python


def test_a_manifold_of_ones_own():
    X = data.swiss_roll(60)
    manifold = Manifold(metrics.from_mixture(X, 4, rho=0.5))
    page = explore(X, manifold, colour=X[:, 2], decode=lambda z: z[:, :, None], open_browser=False, wait=False)
    with page, Client(page) as client:
        assert client.welcome["most_components"] == 0
        assert client.welcome["rho"] == 0.5
        assert client.welcome["view"] == "principal"
        assert client.welcome["decoder"] == {"kind": "image", "height": 3, "width": 1}
        setting = {"components": 1, "rho": 0.5, "tolerance": 1e-3, "view": "principal"}
        ends = client.ask("points", setting=setting, colour="colour")["ends"]
        shown = {"setting": setting, "ends": ends, "spreads": CERTAIN}
        said = client.ask("geodesic", **shown, fine=True)
        code = client.ask("snippet", **shown, rows=None)["code"]
        code = code.replace("X = ...", "").replace("manifold = ...", "")
        space = {"X": X, "manifold": manifold}
        exec(code, space)
        assert space["geodesic"].mean_length == pytest.approx(said["length"], rel=1e-6)
        assert page.address in page._repr_html_()
    assert not page.running


MESH = {"X": np.eye(4), "components": 1, "decode": lambda z: np.ones((len(z), 4, 3))}


def test_a_point_of_the_picture_stands_for_one_near_the_data():
    from probgeo.explorer.scene import Plane

    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    X = np.stack([np.cos(angle), np.sin(angle), 1.0 + 0.1 * np.cos(angle)], axis=1)
    plane = Plane.of(X, "coordinates")
    lifted = plane.lift(X[:, :2])
    assert np.allclose(lifted[:, :2], X[:, :2])
    assert np.abs(lifted[:, 2] - X[:, 2]).max() < 0.03
    principal = Plane.of(X, "principal")
    assert np.allclose(principal.project(principal.lift(principal.seen)), principal.seen)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": [[0.0], [1.0], [2.0]]}, "X must hold at least 3 points of 2 dim"),
        ({"X": np.zeros((2, 2))}, "X must hold at least 3"),
        ({"X": np.eye(4), "colour": [1.0]}, r"colour must have shape \(4,\)"),
        ({"X": np.eye(4), "faces": [[0, 1, 2]]}, "give decode too"),
        ({"X": np.random.default_rng(0).normal(size=(20, 2)), "components": 30}, "at most 6"),
        ({"X": np.eye(4), "components": 1, "decode": lambda z: z}, "decode must return images"),
        ({**MESH, "faces": [[0, 1, 4]]}, "faces must be vertices from 0 to 3, got 0 to 4"),
        ({**MESH, "faces": [[0.0, 1.0, 2.0]]}, r"faces must be whole numbers \(F, 3\)"),
        ({"X": np.eye(4), "components": 1, "port": -1}, "port"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        explore(**arguments, open_browser=False, wait=False).stop()


def test_a_metric_that_fails_is_told_not_fatal():
    class Failing(metrics.Flat):
        def energies(self, x, v):
            raise KeyError("nothing here")

    X = data.two_moons(50)
    page = explore(X, Failing(np.eye(2)), open_browser=False, wait=False)
    with page, Client(page) as client:
        setting = {"components": 1, "rho": 1.0, "tolerance": 1e-3, "view": "coordinates"}
        for _ in range(2):
            said = client.ask("geodesic", **{**SHOWN, "setting": setting}, fine=True)
            assert said["kind"] == "error"
            assert "KeyError" in said["text"]
