"""Style of the page of the API description, with the colours of the console."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --ground: light-dark(#f6f7f8, #0f1417);
  --surface: light-dark(#ffffff, #161c20);
  --sunken: light-dark(#eef1f2, #0b1012);
  --line: light-dark(#dde3e5, #2a343a);
  --text: light-dark(#172226, #dfe7ea);
  --quiet: light-dark(#52626a, #9aabb3);
  --accent: light-dark(#0a6c75, #58c4cd);
  --wash: light-dark(#e1f1f2, #12343a);
  --good: light-dark(#1c6b3c, #6cc990);
  --warn: light-dark(#8a5300, #e3ad57);
  --bad: light-dark(#b3261e, #ff8f87);
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font: 14px / 1.45 ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  color: var(--text);
  background: var(--ground);
  scroll-padding-top: 1rem;
}
*, *::before, *::after { box-sizing: border-box; }
body { display: grid; grid-template-columns: 14rem minmax(0, 1fr); min-height: 100vh; margin: 0; }
a { color: var(--accent); text-underline-offset: 0.18em; text-decoration-thickness: 1px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
h1, h2, h3, p { margin: 0; }
h1 { font-size: 1.25rem; font-weight: 620; letter-spacing: -0.012em; }
h2 { margin: 1.2rem 0 0.1rem; font-size: 0.95rem; font-weight: 620; }
h2::first-letter, nav a::first-letter { text-transform: uppercase; }
h3 { font-size: 0.85rem; font-weight: 600; }
code, pre { font-family: var(--mono); font-size: 0.92em; }
pre { margin: 0; padding: 0.5rem 0.7rem; overflow-wrap: anywhere; white-space: pre-wrap;
  background: var(--sunken); border: 1px solid var(--line); border-radius: 6px; }
nav { position: sticky; top: 0; height: 100vh; padding: 0.9rem 0.6rem; overflow-y: auto; background: var(--surface);
  border-right: 1px solid var(--line); }
nav .brand { display: block; padding: 0 0.5rem 0.7rem; font-size: 1rem; font-weight: 650; color: var(--text); }
nav a { display: block; padding: 0.32rem 0.5rem; color: var(--quiet); text-decoration: none; border-radius: 6px; }
nav a:hover { color: var(--text); background: var(--sunken); }
main { display: grid; gap: 0.6rem; align-content: start; max-width: 72rem; padding: 1.1rem 1.5rem 3rem; }
main > p { max-width: 50rem; }
details { min-width: 0; background: var(--surface); border: 1px solid var(--line); border-radius: 6px; }
summary { display: flex; flex-wrap: wrap; gap: 0.1rem 0.7rem; align-items: baseline; padding: 0.4rem 0.8rem;
  cursor: pointer; overflow-wrap: anywhere; }
summary:hover { background: color-mix(in oklab, var(--sunken) 60%, transparent); }
summary .summary { color: var(--quiet); }
details > div { scroll-margin-top: 3rem; display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.6rem;
  padding: 0.6rem 0.8rem 0.8rem; border-top: 1px solid var(--line); }
.method { min-width: 4.2rem; font-size: 0.8rem; font-weight: 650; }
.get { color: var(--accent); } .post { color: var(--good); } .put, .patch { color: var(--warn); }
.delete { color: var(--bad); }
.badge { padding: 0 0.42rem; font-size: 0.8rem; font-weight: 560; color: var(--quiet); white-space: nowrap;
  background: var(--sunken); border-radius: 999px; }
.frame { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.93rem; }
th, td { padding: 0.25rem 1rem 0.25rem 0; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--line); }
tr:last-child > td { border-bottom: 0; }
th { font-size: 0.8rem; font-weight: 560; color: var(--quiet); white-space: nowrap; }
td:first-child { white-space: nowrap; }
@media (width < 52rem) {
  body { grid-template-columns: minmax(0, 1fr); align-content: start; }
  nav { position: static; display: flex; flex-wrap: wrap; height: auto; padding: 0.6rem; border-right: 0;
    border-bottom: 1px solid var(--line); }
  nav .brand { width: 100%; }
  main { padding: 0.9rem 1rem 3rem; }
}
"""
