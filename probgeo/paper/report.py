"""The report on a run: `results.json` for programs, `index.html` for people."""

import json
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from probgeo._json import plain, write_json
from probgeo._repr import duration
from probgeo.paper.run import EXPERIMENTS, title_and_caption

Record = dict[str, Any]
Records = dict[str, Record]

# a verdict has a sign and a word, so that nothing depends on its colour
MARKS = {"agrees": "✓", "partly": "≈", "disagrees": "✗", "not tested": "○"}
PAPER = (
    "P. Hennig and S. Hauberg: Probabilistic Solutions to Differential Equations and their "
    "Application to Riemannian Statistics. AISTATS 2014"
)


def write_report(folder: Path, records: Records) -> None:
    """Write `results.json` and `index.html` beside the pictures in a folder."""
    write_json(folder / "results.json", records)
    (folder / "index.html").write_text(_page(folder, in_order(records)), encoding="utf-8")


# --- what other pages need as well --------------------------------------------------------------


def in_order(records: Records) -> Records:
    return {name: records[name] for name in EXPERIMENTS if name in records}


def not_run(records: Records) -> list[str]:
    return [name for name in EXPERIMENTS if name not in records]


def alt(record: Record, file: str) -> str:
    """What a picture shows, for those who do not see it."""
    if file.endswith(".gif"):
        return f"{record['title']}, animated"
    return record["title"] if file == record["files"][0] else f"{record['title']} ({Path(file).stem})"


def total(records: Records) -> str:
    return duration(sum(record["seconds"] for record in records.values()))


def kind_of_run(records: Records) -> str:
    """Whether it was a quick run, whose numbers are rough."""
    small = [name for name, record in in_order(records).items() if record["quick"] or record["tiny"]]
    if not small:
        return "This was a full run."
    which = "This was a quick run" if len(small) == len(records) else f"Quick runs: {enumeration(small)}"
    return (
        f"{which}. A quick run uses fewer points than the paper, and its timings are rough; a full "
        "run gives the numbers to quote."
    )


def made_with(records: Records) -> str:
    """Machines and versions; several if the records come from several runs."""
    found = {
        "Machine": (record["machine"] for record in records.values()),
        "versions": (", ".join(f"{k} {v}" for k, v in record["versions"].items()) for record in records.values()),
        "seed": (str(record["seed"]) for record in records.values()),
    }
    return "; ".join(f"{what}: {' or '.join(dict.fromkeys(all_))}" for what, all_ in found.items())


def tally(claims: Iterable[dict[str, str]]) -> str:
    """
    >>> tally([{"verdict": "agrees"}, {"verdict": "agrees"}, {"verdict": "partly"}])
    '3 claims: 2 agree, 1 partly'
    """
    verdicts = [claim["verdict"] for claim in claims]
    counts = {verdict: verdicts.count(verdict) for verdict in MARKS if verdict in verdicts}
    words = [f"{n} {v.removesuffix('s') if n > 1 else v}" for v, n in counts.items()]
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}: {', '.join(words)}"


def enumeration(names: list[str]) -> str:
    """
    >>> enumeration(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- HTML ---------------------------------------------------------------------------------------


class Html(str):
    """Text that is HTML already: all other text is escaped when it becomes part of an element."""


def element(tag: str, *content: str, **attributes: str) -> Html:
    """An element; `class_` stands for the attribute class, `data_label` for data-label.

    >>> print(element("p", "a < b ", element("b", "c"), class_="note"))
    <p class="note">a &lt; b <b>c</b></p>
    """
    named = (f' {name.strip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    inner = "".join(part if isinstance(part, Html) else escape(part) for part in content)
    return Html(f"<{tag}{''.join(named)}>" + ("" if tag == "img" else f"{inner}</{tag}>"))


def _page(folder: Path, records: Records) -> str:
    style = files("probgeo.paper").joinpath("report.css").read_text(encoding="utf-8")
    body = [element("header", *_introduction(records)), element("main", *_claims(records), *_sections(folder, records))]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hennig and Hauberg (2014), reproduced by probgeo</title>
<style>
{style}</style>
</head>
{element("body", *body)}
</html>
"""


def _introduction(records: Records) -> Iterable[Html]:
    def linked(names: Iterable[str], between: str) -> Html:
        return Html(between.join(element("a", _short(records[name]), href=f"#{name}") for name in names))

    yield element("h1", "Hennig and Hauberg (2014), reproduced")
    found = "run again with probgeo: every figure, what the paper says of it, and what was measured here."
    results = element("a", "results.json", href="results.json")
    paper = element("cite", PAPER)
    yield element("p", "The experiments of ", paper, f", {found} All numbers are also in ", results, ".")
    if records:
        yield element("p", kind_of_run(records), class_="note" if "uick run" in kind_of_run(records) else "")
    if failed := [name for name, record in records.items() if "error" in record]:
        yield element("p", "Ended in an error: ", linked(failed, ", "), ".", class_="error")
    if missing := not_run(records):
        command = element("code", f"probgeo reproduce {' '.join(missing)}")
        yield element("p", f"Not run: {enumeration(missing)}. ", command, " adds them.")
    if records:
        yield element("p", f"{made_with(records)}. Total time: {total(records)}.", class_="run")
    yield element("nav", linked(records, " · "), aria_label="Experiments")


def _claims(records: Records) -> Iterable[Html]:
    claims = [(name, claim) for name, record in records.items() for claim in record.get("claims", [])]
    yield element("h2", "The paper's claims, and what was measured", id="claims")
    if not claims:
        yield element("p", "No experiment has measured a claim yet.")
        return
    yield element("p", f"{tally(claim for _, claim in claims)}.")
    columns, rows = ("The paper", "Measured here", "Verdict"), []
    for name, claim in claims:
        source = element("a", _short(records[name]), href=f"#{name}")
        verdict = f"{MARKS.get(claim['verdict'], '?')} {claim['verdict']}"
        cells: tuple[tuple[str, ...], ...] = (
            (claim["paper"], " (", source, ")"),
            (_prose(claim["measured"]), element("span", _prose(claim["why"]), class_="why") if claim["why"] else ""),
            (element("span", verdict, class_=f"verdict {claim['verdict'].replace(' ', '-')}"),),
        )
        rows.append(element("tr", *(element("td", *c, data_label=n) for n, c in zip(columns, cells, strict=True))))
    head = element("tr", *(element("th", name, scope="col") for name in columns))
    yield element("table", element("thead", head), element("tbody", *rows), class_="claims")


def _sections(folder: Path, records: Records) -> Iterable[Html]:
    for name, record in records.items():
        parts = [element("h2", record["title"])]
        if "error" in record:
            said = element("p", element("strong", "This experiment ended in an error."), f" {record['error']}")
            more = element("pre", record.get("traceback", ""))
            parts += [element("div", said, _folded("Traceback", more), class_="error")]
        else:
            parts += [_picture(folder, record, file) for file in record["files"]]
            parts += [element("p", paragraph) for paragraph in title_and_caption(name)[1]]
        if settings := record.get("settings"):
            pairs = [(element("th", k, scope="row"), element("td", str(v))) for k, v in settings.items()]
            rows = (element("tr", *pair) for pair in pairs)
            parts += [element("h3", "Settings"), element("table", *rows, class_="settings")]
        if numbers := record.get("numbers"):
            parts += [_folded("All numbers", element("pre", json.dumps(plain(numbers), indent=1)))]
        size = "quick run, " if record["quick"] or record["tiny"] else ""
        parts += [element("p", f"{size}{duration(record['seconds'])}, seed {record['seed']}", class_="run")]
        yield element("section", *parts, id=name)


def _folded(summary: str, content: Html) -> Html:
    return element("details", element("summary", summary), Html("\n"), content)


def _picture(folder: Path, record: Record, file: str) -> Html:
    if file.endswith(".gif"):  # still until asked for: motion beside a text distracts
        return _folded("Animation", element("img", src=file, alt=alt(record, file)))
    # a picture of 7 inches, at 200 dots an inch, is as wide as the text
    image = element("img", src=file, srcset=f"{file} 1.7x", alt=alt(record, file))
    pdf = Path(file).with_suffix(".pdf").name
    return element("figure", image, element("a", "PDF", class_="run", href=pdf) if (folder / pdf).exists() else "")


def _short(record: Record) -> str:
    return record["title"].partition(":")[0]


def _prose(text: str) -> Html:
    """Escaped, and without line breaks within numbers.

    >>> print(_prose("<1e-09"))
    &lt;<span class="number">1e-09</span>
    """
    return Html(re.sub(r"\d[\d.]*(e[+-]\d+| %)", r'<span class="number">\g<0></span>', escape(text)))
