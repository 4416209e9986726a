"""A page with a program and the terminals in which it ran: on stock torch, and under torchdevice_cuda."""

from __future__ import annotations

import html
import subprocess
import sys
from pathlib import Path

_STYLE = """
body { background: #f6f8fa; font: 16px system-ui, "DejaVu Sans", sans-serif; margin: 0; padding: 26px; }
main { display: grid; gap: 20px; grid-template-columns: 5fr 6fr; grid-template-rows: auto auto; }
section { background: #fff; border: 1px solid #d0d7de; border-radius: 10px; overflow: hidden; }
section:first-child { grid-row: span 2; }
h2 { background: #eaeef2; border-bottom: 1px solid #d0d7de; font-size: 15px; margin: 0; padding: 9px 16px; }
pre { font: 15px/1.55 "DejaVu Sans Mono", monospace; margin: 0; padding: 14px 16px; white-space: pre-wrap; }
.terminal { background: #161b22; border-color: #161b22; } .terminal pre { color: #e6edf3; }
.terminal h2 { background: #21262d; border-color: #30363d; color: #e6edf3; }
.bad { color: #ff8f88; } .good { color: #6fdd8b; } .soft { color: #9aa7b4; }
"""


def _run(program: Path, *options: str) -> str:
    words = [sys.executable, *options, program.name]
    done = subprocess.run(words, cwd=program.parent, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def write_page(program: Path) -> str:
    """Run a program twice, and return the page."""
    name, options = program.name, ("-m", "torchdevice_cuda", "--driver", "virtual", "--gpu", "t4")
    text = program.read_text(encoding="utf-8").partition('"""\n\n')[2]
    without, under = html.escape(_run(program)), html.escape(_run(program, *options))
    return f"""<!doctype html><meta charset="utf-8"><style>{_STYLE}</style><main>
<section><h2>{name}</h2><pre>{html.escape(text)}</pre></section>
<section class="terminal"><h2>PyTorch without CUDA</h2>
<pre><span class="soft">$</span> python {name}\n<span class="bad">{without}</span></pre></section>
<section class="terminal"><h2>with torchdevice_cuda</h2>
<pre><span class="soft">$</span> python -m torchdevice_cuda --gpu t4 {name}
<span class="good">{under}</span></pre></section></main>"""
