"""The report on a run: `results.json` for programs, `index.html` for people."""

import json
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from probgeo._json import plain
from probgeo.paper.run import EXPERIMENTS, module_of, title_and_caption

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
    text = json.dumps(plain(records), indent=1, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_page(folder, records), encoding="utf-8")


# --- what other pages need as well --------------------------------------------------------------


def in_order(records: Records) -> dict[str, Record]:
    """In the order of the paper."""
    return {name: records[name] for name in EXPERIMENTS if name in records}


def not_run(records: Records) -> list[str]:
    return [name for name in EXPERIMENTS if name not in records]


def paragraphs(name: str) -> list[str]:
    """The caption of an experiment."""
    caption = title_and_caption(module_of(name))[1]
    return [" ".join(part.split()) for part in caption.split("\n\n") if part.strip()]


def alt(record: Record, file: str) -> str:
    """What a picture shows, for those who do not see it."""
    if file.endswith(".gif"):
        return f"{record['title']}, animated"
    stills = [f for f in record["files"] if not f.endswith(".gif")]
    return record["title"] if file == stills[0] else f"{record['title']} ({Path(file).stem})"


def duration(seconds: float) -> str:
    """
    >>> duration(7.26), duration(200), duration(7384)
    ('7.3 s', '3 min 20 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def total(records: Records) -> str:
    return duration(sum(record["seconds"] for record in records.values()))


def kind_of_run(records: Records) -> str:
    """How far the numbers can be trusted."""
    small = [name for name, record in in_order(records).items() if _is_small(record)]
    if not small:
        return "This was a full run."
    which = "This was a quick run" if len(small) == len(records) else f"Quick runs: {listed(small)}"
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


def listed(names: list[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _is_small(record: Record) -> bool:
    return bool(record.get("quick") or record.get("tiny"))


# --- HTML ---------------------------------------------------------------------------------------


def _page(folder: Path, records: Records) -> str:
    ordered = in_order(records)
    sections = "\n".join(_section(folder, name, record) for name, record in ordered.items())
    style = files("probgeo.paper").joinpath("report.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hennig and Hauberg (2014), reproduced by probgeo</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>Hennig and Hauberg (2014), reproduced</h1>
{_introduction(ordered)}
</header>
<main>
{_claims(ordered)}
{sections}
</main>
</body>
</html>
"""


def _introduction(records: Records) -> str:
    small = any(map(_is_small, records.values()))
    contents = " · ".join(
        f'<a href="#{name}">{escape(_short(record["title"]))}</a>' for name, record in records.items()
    )
    made = f"{made_with(records)}. Total time: {total(records)}." if records else ""
    return f"""<p>The experiments of <cite>{escape(PAPER)}</cite>, run again with probgeo: every
figure, what the paper says of it, and what was measured here. All numbers are also in
<a href="results.json">results.json</a>.</p>
<p{' class="note"' if small else ""}>{escape(kind_of_run(records)) if records else ""}</p>
{_unfinished(records)}
<p class="run">{escape(made)}</p>
<nav aria-label="Experiments">{contents}</nav>"""


def _unfinished(records: Records) -> str:
    """Which experiments failed or were not run."""
    failed = [
        f'<a href="#{name}">{escape(_short(record["title"]))}</a>'
        for name, record in records.items()
        if "error" in record
    ]
    errors = f'<p class="error">Ended in an error: {listed(failed)}.</p>' if failed else ""
    missing = not_run(records)
    if not missing:
        return errors
    command = f"probgeo reproduce {' '.join(missing)}"
    return f"{errors}<p>Not run: {listed(missing)}. <code>{command}</code> adds them.</p>"


def _claims(records: Records) -> str:
    claims = [(name, claim) for name, record in records.items() for claim in record.get("claims", [])]
    if not claims:
        return '<h2 id="claims">Claims</h2>\n<p>No experiment has measured a claim yet.</p>'
    rows = "\n".join(_claim(name, records[name]["title"], claim) for name, claim in claims)
    return f"""<h2 id="claims">The paper's claims, and what was measured</h2>
<p>{escape(tally(claim for _, claim in claims))}.</p>
<table class="claims">
<thead><tr><th scope="col">The paper</th><th scope="col">Measured here</th>
<th scope="col">Verdict</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>"""


def _claim(name: str, title: str, claim: dict[str, str]) -> str:
    why = f'<span class="why">{_prose(claim["why"])}</span>' if claim.get("why") else ""
    return f"""<tr>
<td data-label="The paper">{escape(claim["paper"])}
(<a href="#{name}">{escape(_short(title))}</a>)</td>
<td data-label="Measured here">{_prose(claim["measured"])}{why}</td>
<td data-label="Verdict">{_verdict(claim["verdict"])}</td>
</tr>"""


def _verdict(verdict: str) -> str:
    kind = verdict.replace(" ", "-")
    return f'<span class="verdict {escape(kind)}">{MARKS.get(verdict, "?")} {escape(verdict)}</span>'


def _section(folder: Path, name: str, record: Record) -> str:
    pictures = "\n".join(_picture(folder, record, file) for file in record.get("files", []))
    caption = "\n".join(f"<p>{escape(part)}</p>" for part in paragraphs(name))
    body = _error(record) if "error" in record else f"{pictures}\n{caption}"
    size = "quick run, " if _is_small(record) else ""
    return f"""<section id="{name}">
<h2>{escape(record["title"])}</h2>
{body}
{_settings(record.get("settings", {}))}
{_numbers(record.get("numbers", {}))}
<p class="run">{size}{duration(record["seconds"])}, seed {escape(str(record["seed"]))}</p>
</section>"""


def _picture(folder: Path, record: Record, file: str) -> str:
    source, text = escape(file), escape(alt(record, file))
    # a picture of 7 inches, at 200 dots an inch, is as wide as the text
    sharp = "" if file.endswith(".gif") else f' srcset="{source} 1.7x"'
    image = f'<img src="{source}"{sharp} alt="{text}">'
    if file.endswith(".gif"):  # still until asked for: motion beside a text distracts
        return f"<details><summary>Animation</summary>\n{image}\n</details>"
    pdf = Path(file).with_suffix(".pdf").name
    link = f'<a class="run" href="{escape(pdf)}">PDF</a>' if (folder / pdf).exists() else ""
    return f"<figure>{image}{link}</figure>"


def _error(record: Record) -> str:
    return f"""<div class="error"><p><strong>This experiment ended in an error.</strong>
{escape(record["error"])}</p>
<details><summary>Traceback</summary><pre>{escape(record.get("traceback", ""))}</pre></details>
</div>"""


def _numbers(numbers: dict[str, Any]) -> str:
    if not numbers:
        return ""
    listed = escape(json.dumps(plain(numbers), indent=1))
    return f"<details><summary>All numbers</summary>\n<pre>{listed}</pre>\n</details>"


def _settings(settings: dict[str, Any]) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(key)}</th><td>{escape(str(value))}</td></tr>' for key, value in settings.items()
    )
    return f'<h3>Settings</h3>\n<table class="settings">\n{rows}\n</table>' if rows else ""


def _short(title: str) -> str:
    """
    >>> _short("Fig. 1: convergence")
    'Fig. 1'
    """
    return title.partition(":")[0]


def _prose(text: str) -> str:
    """Escaped, and without line breaks within numbers.

    >>> _prose("<1e-09")
    '&lt;<span class="number">1e-09</span>'
    """
    return re.sub(r"\d[\d.]*(e[+-]\d+| %)", r'<span class="number">\g<0></span>', escape(text))
