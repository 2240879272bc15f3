"""Draws the text of a terminal as an SVG: python3 tools/terminal.py < docs/terminal.txt > docs/terminal.svg

Lines that begin with "$ " are commands. Lines longer than the terminal is wide are wrapped, as a terminal does it.
Only the standard library is needed.
"""

import html
import sys

COLUMNS, SIZE, LINE, LEFT, TOP = 108, 13, 18, 16, 48
WIDTH = int(COLUMNS * SIZE * 0.6 + 2 * LEFT)

lines = []  # (text, is a command)
for text in sys.stdin.read().splitlines():
    command = text.startswith("$ ")
    while True:
        lines.append((text[:COLUMNS], command))
        text = text[COLUMNS:]
        if not text:
            break

height = TOP + LINE * len(lines) + 10
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">')
print("<title>weir in a terminal</title>")
print(f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#14181f"/>')
for i, colour in enumerate(["#ff5f57", "#febc2e", "#28c840"]):
    print(f'<circle cx="{20 + 18 * i}" cy="18" r="6" fill="{colour}"/>')
print(f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{SIZE}" fill="#c9d1d9" xml:space="preserve">')
for i, (text, command) in enumerate(lines):
    # The length keeps columns aligned whatever monospaced font there is.
    fill = ' fill="#7ee787"' if command else ""
    length = f' textLength="{len(text) * SIZE * 0.6:.1f}"' if text.strip() else ""
    print(f'<text x="{LEFT}" y="{TOP + LINE * i}"{fill}{length}>{html.escape(text)}</text>')
print("</g>\n</svg>")
