"""A bundle's card as Markdown, and as one HTML file that asks nobody for anything."""

import re
import tempfile
from pathlib import Path

import jinja2

import hucrl_ros
from hucrl_ros.errors import LONGEST, shortened
from hucrl_ros.experiments.card import Card
from hucrl_ros.experiments.card_sections import Section
from hucrl_ros.experiments.report import learning_curve

MADE_BY = f"Made by hucrl card, hucrl_ros {hucrl_ros.__version__}."
STYLE = """
:root { --ink: #1f2933; --quiet: #66727f; --line: #e4e7eb; --accent: #0072b2; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0; background: #f3f5f7; color: var(--ink); line-height: 1.45;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 2rem auto; background: var(--paper); padding: 2.5rem 3rem;
  border-radius: 14px; box-shadow: 0 1px 3px #0002, 0 12px 40px #0001;
  border-top: 8px solid var(--accent); }
h1 { font-size: 2.1rem; line-height: 1.15; margin: 0; letter-spacing: -.02em; }
h2 { font-size: 1.02rem; margin: 0 0 .6rem; padding-bottom: .35rem; color: var(--accent);
  border-bottom: 1px solid var(--line); }
p { margin: 0 0 .6rem; } .about { color: var(--quiet); font-size: 1.08rem; margin: .5rem 0 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.8rem 0; }
.tile { flex: 1 1 9.5rem; background: #eef5fa; border-radius: 10px; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.55rem; letter-spacing: -.02em; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--quiet); font-size: .85rem; }
.parts { columns: 2; column-gap: 2.5rem; } section { break-inside: avoid; margin-bottom: 1.7rem; }
.wide { column-span: all; break-inside: auto; overflow-x: auto; }
.wide .numbers td, .wide .numbers th { overflow-wrap: break-word; }
figure { margin: 0 auto 1rem; max-width: 46rem; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: left; vertical-align: top; padding: .28rem .7rem .28rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; color: var(--quiet); } .pairs td:first-child { color: var(--quiet);
  width: 42%; overflow-wrap: break-word; } .intro { color: var(--quiet); }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; }
.hash { font: .8em ui-monospace, "DejaVu Sans Mono", monospace; }
footer { color: var(--quiet); font-size: .85rem; border-top: 1px solid var(--line);
  padding-top: .8rem; }
@media (max-width: 720px) { main { margin: 0; padding: 1.3rem; border-radius: 0; }
  .parts { columns: 1; } h1 { font-size: 1.6rem; } }
@media print { body { background: #fff; } main { box-shadow: none; margin: 0; padding: 0;
  max-width: none; } .tile { print-color-adjust: exact; } @page { margin: 14mm; } }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ card.title }}</title>
<style>{{ style|safe }}</style>
</head>
<body><main>
<header><h1>{{ card.title }}</h1>{% if card.about %}<p class="about">{{ card.about }}</p>
{% endif %}</header>
<div class="tiles">
{% for tile in card.tiles %}<div class="tile"><b>{{ tile.value }}</b><span>{{ tile.name }}</span>
</div>
{% endfor %}</div>
<div class="parts">
{% for part in card.sections %}<section{% if part.wide %} class="wide"{% endif %}>
<h2>{{ part.title }}</h2>
{% if part.title == drawn %}<figure>{{ curve|safe }}</figure>{% endif %}
{% if part.intro %}<p class="intro">{{ part.intro }}</p>{% endif %}
{% if part.rows %}<table class="{{ 'numbers' if part.header else 'pairs' }}">
{% if part.header %}<tr>{% for name in part.header %}<th>{{ name }}</th>{% endfor %}</tr>
{% endif %}
{% for row in part.rows %}<tr>{% for cell in row %}<td{% if is_hash(cell) %} class="hash"
{%- endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endif %}
</section>
{% endfor %}</div>
<footer>{{ made_by }}</footer>
</main></body>
</html>
"""
CURVE = "Learning curve"
_HASH = re.compile(r"[0-9a-f]{40,}|ssh-ed25519 [A-Za-z0-9+/=]+")
_SPECIAL = re.compile(r"([\\|<>*_`\[\]])")


def markdown(card: Card) -> str:
    """The card's text; whatever a bundle says is shown as it is, never as markup."""
    lines = [f"# {_plain(card.title)}", "", *([_plain(card.about), ""] if card.about else [])]
    lines += [f"- **{_plain(tile.value)}** {_plain(tile.name)}" for tile in card.tiles]
    for section in card.sections:
        lines += ["", f"## {section.title}", ""]
        lines += [_plain(section.intro), ""] if section.intro else []
        lines += _table(section) if section.rows else []
    return "\n".join([*lines, "", MADE_BY]).replace("\n\n\n", "\n\n") + "\n"


def html(card: Card) -> str:
    """The card as a page: everything is in it."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(PAGE).render(
        card=card,
        style=STYLE,
        curve=_curve(card),  # Matplotlib escapes what it writes
        drawn=CURVE,
        made_by=MADE_BY,
        is_hash=_HASH.fullmatch,
    )


def _table(section: Section) -> list[str]:
    header = section.header or ("", "")
    rows = [header, ("---",) * len(header), *section.rows]
    return ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]


def _cell(text: str) -> str:
    return f"`{text}`" if _HASH.fullmatch(text) else _plain(text)


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", shortened(text, LONGEST))


def _curve(card: Card) -> str:
    """SVG; empty where no episode is known."""
    if card.summary is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = learning_curve(Path(folder) / "curve.svg", card.summary, card.random_episodes)
        drawn = path.read_text(encoding="utf-8")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    return drawn[drawn.index("<svg") :]
