import pytest

from probgeo.explorer import Explorer
from probgeo.explorer.examples import moons
from tests.explorer.client import Client


@pytest.fixture(scope="module")
def explorer():
    with Explorer(moons()) as running:
        yield running


@pytest.fixture
def client(explorer):
    with Client(explorer) as talking:
        yield talking
