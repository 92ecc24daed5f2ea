"""Names in backticks lead to the page that documents them, without the name of their module."""

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> nodes.Node | None:
    """`Manifold`, `Manifold.exp` or `metrics.Flat`, from anywhere, if only one thing is meant."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].split("(")[0]
    # a plain word in lower case is an argument or an attribute of what is being described
    if target.islower() and not set("._") & set(target):
        return None
    domain: Any = env.domains["py"]
    meant = [name for name, entry in domain.objects.items() if name.endswith(f".{target}") and not entry.aliased]
    if len(meant) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", meant[0], node, content)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("missing-reference", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
