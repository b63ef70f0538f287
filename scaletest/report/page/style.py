"""How report.html looks: one accent colour, the reader's light or dark, figures that line up."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --dim: #667085; --paper: #fff; --line: #e4e7ec; --soft: #f5f7fa;
  --accent: #1769aa; --good: #1a7f4b; --bad: #c0362c; --odd: #a86400; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --dim: #98a2b3; --paper: #12161d; --line: #2a313c;
  --soft: #1a202a; --accent: #6cb6f5; --good: #4cc38a; --bad: #f2736a; --odd: #f0b04c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 28px 24px 60px; }
header { border-left: 6px solid var(--odd); padding-left: 18px; margin-bottom: 18px; }
header.passed { border-color: var(--good); } header.failed { border-color: var(--bad); }
.verdict { margin: 0; font-weight: 700; letter-spacing: .04em; color: var(--odd); }
.passed .verdict { color: var(--good); } .failed .verdict { color: var(--bad); }
h1 { margin: 2px 0; font-size: 28px; } h2 { margin: 34px 0 10px; font-size: 18px; }
.dim, .note { color: var(--dim); } header .dim { margin: 0; } .note { font-size: 13px; }
.reasons { background: var(--soft); border-radius: 8px; margin: 0 0 18px; padding: 12px 12px 12px 32px; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 10px; }
.tiles div { background: var(--soft); border-radius: 8px; padding: 10px 12px; }
.tiles b { display: block; font-size: 18px; } .tiles span { color: var(--dim); font-size: 13px; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; color: var(--dim); font-weight: 500; font-size: 13px; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: middle; }
td { font-variant-numeric: tabular-nums; }
.mark { width: 22px; font-weight: 700; color: var(--odd); }
.pass .mark, .ok .mark { color: var(--good); } .fail .mark, .over .mark { color: var(--bad); }
.skipped .mark { color: var(--dim); }
.events td { font-size: 13px; padding: 2px 10px 2px 0; } .events td:first-child { color: var(--dim); }
summary { cursor: pointer; color: var(--accent); margin: 8px 0; }
pre { background: var(--soft); border-radius: 8px; padding: 14px; overflow-x: auto; font-size: 13px; }
svg { display: block; } .curve { fill: none; stroke: var(--accent); stroke-width: 1.6; }
.bar { stroke: var(--dim); stroke-dasharray: 4 3; } .missed { fill: var(--bad); }
.strip { width: 100%; height: auto; border-radius: 6px; } .strip text { font-size: 12px; fill: #fff; }
.step0 rect { fill: #1769aa; } .step1 rect { fill: #4b8fc4; }
"""
