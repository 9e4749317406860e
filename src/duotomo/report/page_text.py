"""The text beside the pictures, as HTML. Every word that comes from a result is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from duotomo.io import SavedResult
from duotomo.report.page_breast import breast_label
from duotomo.report.page_charts import course_svg, residual_svg
from duotomo.report.page_findings import findings_html
from duotomo.report.page_table import table
from duotomo.report.page_volumes import PageVolumes
from duotomo.report.page_words import NOTE, CheckLine, Rows, numbers, physical_rows, quality_checks

CITATION = """@software{duotomo,
  title = {duotomo: digital breast tomosynthesis from two visits},
  author = {{The duotomo developers}},
  version = {VERSION}
}
@article{yang2012coupled,
  title = {Numerical Methods for Coupled Reconstruction and Registration in Digital Breast Tomosynthesis},
  author = {Yang, Guang and Hipwell, John H. and Hawkes, David J. and Arridge, Simon R.},
  journal = {Annals of the BMVA},
  year = {2012}
}"""

_FEW = 12
_BY = "\N{MULTIPLICATION SIGN}"


def text_html(saved: SavedResult, index: Mapping[str, Any], shown: PageVolumes) -> str:
    """Return the text of a page. index: the content of `result.json`."""
    return "".join(
        [
            _alarm(saved.settings),
            _head(saved, shown),
            _findings(saved, shown),
            _section("Quality checks", _checks(index, saved.notes)),
            _section("Motion between the visits", _motion(saved, index)),
            _section("Course of the run", _course(saved)),
            _section("Settings", _settings(saved.settings)),
            _section("How to cite", _cite(saved.versions.get("duotomo", ""))),
        ]
    )


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Give nested settings line by line.

    >>> list(flat({"a": {"b": 1, "c": [2, 3]}, "d": [{"e": None}]}))
    [('a.b', '1'), ('a.c', '2, 3'), ('d.1.e', 'none')]
    """
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        for number, part in enumerate(value, start=1):
            yield from flat(part, f"{name}.{number}")
    elif isinstance(value, list):
        yield name, ", ".join(map(_plain, value))
    else:
        yield name, _plain(value)


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return (
        f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def _alarm(settings: Mapping[str, Any]) -> str:
    """Return in what the inputs do not belong together, in red above all else."""
    conflicts = (settings.get("agreement") or {}).get("conflicts") or []
    said = "".join(
        f"<br>{escape(str(row['what']).upper())}: {escape(str(row['words']))}." for row in conflicts
    )
    return f'<p class="alarm">The inputs do not belong together; this was allowed.{said}</p>' if said else ""


def _head(saved: SavedResult, shown: PageVolumes) -> str:
    n_visits = len(saved.motions) + 1
    visits = "one visit" if n_visits == 1 else f"{n_visits} visits"
    z, y, x = saved.grid.shape
    dz, dy, dx = saved.grid.spacing_mm
    breast = breast_label(saved.settings, 1)
    rows = [
        *([("Breast and view", breast)] if breast else []),
        ("Method", saved.method),
        ("Volume (x, y, z)", f"{_times(x, y, z)} voxels of {_times(dx, dy, dz)} mm"),
        ("Computing", f"{_duration(saved.seconds)}, {saved.applications} projector applications"),
    ]
    note = ""
    if max(shown.coarsened) > 1:
        sz, sy, sx = shown.grid.spacing_mm
        note = (
            f'<p class="soft">The pictures here are coarser than the result: voxels of '
            f"{_times(sx, sy, sz)} mm. The files beside this page have all of it.</p>"
        )
    return (
        f"<h1>Breast tomosynthesis, {visits}</h1>"
        f'<p class="soft">Attenuation in 1/mm. For research; not a medical device.</p>{table(rows)}{note}'
    )


def _times(*numbers: float) -> str:
    return f" {_BY} ".join(f"{number:.4g}" for number in numbers)


def _findings(saved: SavedResult, shown: PageVolumes) -> str:
    if saved.change is None:
        return ""
    return _section("Findings", findings_html(saved.change, shown.coarsened[0]))


def _checks(index: Mapping[str, Any], notes: Sequence[str]) -> str:
    checks = [*quality_checks(index), *(CheckLine(verdict=NOTE, words=note) for note in notes)]
    lines = [
        f'<li class="{check.verdict}"><b>{check.verdict}</b> {escape(check.words)}{_remedy(check)}</li>'
        for check in checks
    ]
    quality = index.get("quality") or {}
    charts = []
    noise = numbers(quality.get("noise"))
    for number, rms in enumerate(map(numbers, quality.get("residual_by_view") or [])):
        chart = residual_svg(rms, noise[number] if number < len(noise) else None)
        if chart:
            charts.append(f"<h3>Visit {number + 1}: residual by view (root mean square)</h3>{chart}")
    return f"<ul>{''.join(lines)}</ul>{''.join(charts)}"


def _remedy(check: CheckLine) -> str:
    return f" <em>What to do: {escape(check.remedy)}</em>" if check.remedy else ""


def _motion(saved: SavedResult, index: Mapping[str, Any]) -> str:
    if not saved.motions:
        return ""
    parts = [
        '<p class="soft">From a point of the visit to the same tissue in the reference. x: along the tube\'s '
        "travel, y: from the chest wall to the nipple, z: from the detector to the source.</p>"
    ]
    for number, described in enumerate(index["motions"], start=2):
        rows: Rows = [("Model", f"{described['model']}, {len(described['params'])} parameters")]
        rows += physical_rows(described.get("physical") or {})
        parts.append(f"<h3>Visit {number}</h3>{table(rows)}")
    return "".join(parts)


def _course(saved: SavedResult) -> str:
    chart = course_svg(saved.history)
    if not chart:
        return ""
    stages: dict[int, str] = {}
    for step in saved.history:
        stages.setdefault(step.stage, step.what)
    named = " · ".join(f"{number + 1}: {what}" for number, what in stages.items())
    said = "Objective by step, a colour for each stage."
    return f'<p class="soft">{said}</p>{chart}<p class="soft">{escape(named)}</p>'


def _settings(settings: Mapping[str, Any]) -> str:
    rows = [(name, value) for name, value in flat(settings) if name != "python"]
    if not rows:
        return ""
    few, rest = rows[:_FEW], rows[_FEW:]
    more = f"<details><summary>{len(rest)} more</summary>{table(rest)}</details>" if rest else ""
    python = settings.get("python")
    call = (
        f"<details><summary>as Python</summary><pre>{escape(str(python))}</pre></details>" if python else ""
    )
    return table(few) + more + call


def _cite(version: str) -> str:
    return (
        "<p>Please cite the software, and the paper whose methods it builds on:</p>"
        f"<pre>{escape(CITATION.replace('VERSION', version))}</pre>"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
