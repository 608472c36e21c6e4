# SPDX-License-Identifier: Apache-2.0
"""A record as a picture: time over bytes, both logarithmic; a panel for each collective, a block of panels for each issue and
kind of buffers. Lines are medians, the areas around them reach from the quickest round to the slowest."""
import math
from xml.sax.saxutils import escape

from record import groups, size_text, number_text

WIDTH, HEIGHT, COLUMNS = 340, 230, 4           # of a panel; panels beside each other
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 34      # margins within a panel
BLOCK, MARGIN, LEGEND = 34, 16, 50             # a block's title, around everything, above everything
COLOURS = (("#2563c9", "#7db0ff"), ("#d2691e", "#f2a65a"), ("#0f8b8d", "#4fc7c8"), ("#8457c5", "#b596ee"))


def style():
    """By library, for light pages and for dark ones."""
    def rules(shade):
        return "".join(f".l{i} {{ stroke: {c[shade]} }} .b{i}, .m{i}, .t{i} {{ fill: {c[shade]} }} "
                       for i, c in enumerate(COLOURS))
    return ("text { font: 11px sans-serif; fill: #5b6472 } .head { font: bold 14px sans-serif; fill: #171b22 } "
            ".title { font: bold 12px sans-serif; fill: #171b22 } .page { fill: #fff } .grid { stroke: #e2e5ea } "
            "polyline { fill: none; stroke-width: 1.8 } polygon { opacity: 0.22 } "
            ".lost { fill: none; stroke: #b91c1c; stroke-width: 1.6 } " + rules(0) +
            "@media (prefers-color-scheme: dark) { text { fill: #98a2b1 } .head, .title { fill: #e8ebf0 } "
            ".page { fill: #181c22 } .grid { stroke: #2a3039 } .lost { stroke: #ff8b8b } " + rules(1) + "}")


class Scale:
    """The axes, the same in all panels, so that they compare."""

    def __init__(self, points):
        us = [one for point in points for rounds in point.us for one in rounds]
        sizes = [point.bytes for point in points]
        self.low_bytes = math.log2(min(sizes))
        self.high_bytes = max(math.log2(max(sizes)), self.low_bytes + 1)
        self.low_us = math.floor(math.log10(min(us)))
        self.high_us = max(math.ceil(math.log10(max(us))), self.low_us + 1)

    def x(self, size):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log2(size) - self.low_bytes) / (self.high_bytes - self.low_bytes)

    def y(self, us):
        part = (math.log10(us) - self.low_us) / (self.high_us - self.low_us)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def grid(self):
        for decade in range(self.low_us, self.high_us + 1):
            y = self.y(10.0**decade)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{decade_text(decade)}</text>'
        exponent = math.ceil(self.low_bytes)
        while exponent <= self.high_bytes:
            x = self.x(2**exponent)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            yield f'<text text-anchor="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}">{size_text(2**exponent)}</text>'
            exponent += 6


def decade_text(decade):
    value, unit = (10**decade, "µs") if decade < 3 else (10**(decade - 3), "ms") if decade < 6 else (10**(decade - 6), "s")
    return f"{value:g} {unit}"


def line(points, library, scale):
    """One library in a panel: the area between the extremes, then the medians."""
    served = [point for point in points if point.serves(library)]
    if not served:
        return
    upper = [f"{scale.x(point.bytes):.1f},{scale.y(max(point.us[library])):.1f}" for point in served]
    lower = [f"{scale.x(point.bytes):.1f},{scale.y(min(point.us[library])):.1f}" for point in served]
    middle = [f"{scale.x(point.bytes):.1f},{scale.y(point.median(library)):.1f}" for point in served]
    yield f'<polygon class="b{library}" points="{" ".join(upper + lower[::-1])}"/>'
    yield f'<polyline class="l{library}" points="{" ".join(middle)}"/>'
    for point, at in zip(served, middle):
        x, y = at.split(",")
        yield f'<circle class="m{library}" cx="{x}" cy="{y}" r="2.4"/>'


def spot(point, names, scale):
    """A disc that tells a point's numbers where it is pointed at, and a ring when the point is lost."""
    parts = [f"{name} {number_text(point.median(i))} µs [{number_text(min(us))}..{number_text(max(us))}]"
             for i, (name, us) in enumerate(zip(names, point.us)) if us]
    first = next((i for i, us in enumerate(point.us) if us), None)
    if first is None:
        return
    if point.ratio is not None:
        parts.append(f"{point.ratio:.2f} times as fast")
    place = f'cx="{scale.x(point.bytes):.1f}" cy="{scale.y(point.median(first)):.1f}"'
    if point.is_lost:
        yield f'<circle class="lost" {place} r="5"/>'
    yield f'<circle {place} r="9" fill-opacity="0"><title>{escape(f"{point}: " + ", ".join(parts))}</title></circle>'


def panel(points, names, scale, x, y):
    yield f'<g transform="translate({x},{y})">'
    yield f'<text class="title" x="{LEFT}" y="{TOP - 9}">{escape(points[0].collective)}</text>'
    yield from scale.grid()
    for library in range(len(names)):
        yield from line(points, library, scale)
    for point in points:
        yield from spot(point, names, scale)
    yield "</g>"


def legend(record):
    conditions = record.conditions
    title = f"{conditions['gpus']} x {conditions['gpu']}, {conditions['datatype']}: time of an operation over its bytes"
    yield f'<text class="head" x="{MARGIN}" y="{MARGIN + 12}">{escape(title)}</text>'
    x = MARGIN
    for i, name in enumerate(record.names()):
        label = name + f" ({record.paths[i]})" * (i < len(record.paths))
        yield f'<rect class="t{i}" x="{x}" y="{MARGIN + 24}" width="14" height="10"/>'
        yield f'<text x="{x + 20}" y="{MARGIN + 33}">{escape(label)}</text>'
        x += 40 + 6 * len(label)
    yield f'<circle class="lost" cx="{x + 5}" cy="{MARGIN + 29}" r="5"/><text x="{x + 16}" y="{MARGIN + 33}">lost</text>'


def to_svg(record):
    """The points at which libraries choose their numbers of blocks."""
    points = [point for point in record.free() if any(point.us)]
    blocks = {}
    for group in groups(points):
        blocks.setdefault((group[0].issue, group[0].memory), []).append(group)
    body, y = [], MARGIN + LEGEND
    if points:
        scale = Scale(points)
    for (issue, memory), panels in blocks.items():
        body.append(f'<text class="head" x="{MARGIN}" y="{y + 22}">{escape(f"{issue}, {memory} buffers")}</text>')
        y += BLOCK
        for i, group in enumerate(panels):
            body += panel(group, record.names(), scale, MARGIN + i % COLUMNS * WIDTH, y + i // COLUMNS * HEIGHT)
        y += HEIGHT * math.ceil(len(panels) / COLUMNS)
    width, height = 2 * MARGIN + COLUMNS * WIDTH, y + MARGIN
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">', f"<style>{style()}</style>",
                      f'<rect class="page" width="{width}" height="{height}"/>', *legend(record), *body, "</svg>"]) + "\n"
