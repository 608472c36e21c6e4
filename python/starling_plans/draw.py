# SPDX-License-Identifier: Apache-2.0
"""Plans as pictures: a column a rank, time downwards, an arrow for every chunk."""
from __future__ import annotations

from xml.sax.saxutils import escape

from .plan import Plan
from .trace import Event, trace

_COLUMN, _ROW, _TOP, _LEFT, _BOX = 280, 22, 56, 20, 230
_STYLE = """text { font: 11px monospace; fill: #222 } .head { font: bold 13px sans-serif }
rect { fill: #f4f4f4; stroke: #bbb } .reduce { fill: #fde9c8 } .copy { fill: #d9ecd5 } .put { fill: #d5e4f7 } .wait { fill: #eee }
line { stroke: #4477aa; stroke-width: 1.3 }"""


def to_svg(plan: Plan) -> str:
    """One round of the plan as an SVG picture. Lanes of a rank stand beside each other; reserve and release, which only
    count, are left out."""
    events = [event for event in trace(plan) if event.step.kind not in ("reserve", "release")]
    # Ticks in which nothing is drawn would only make the picture longer.
    rows = {tick: row for row, tick in enumerate(sorted({event.tick for event in events}))}
    columns: dict[tuple[int, int], int] = {}
    for rank, lanes in enumerate(plan.lanes):
        for lane in range(max(len(lanes), 1)):
            columns[rank, lane] = len(columns)
    width = _LEFT * 2 + _COLUMN * len(columns)
    height = _TOP + _ROW * (len(rows) + 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
             f"<title>{escape(plan.name)}</title>", f"<style>{_STYLE}</style>",
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path d="M0,0 L8,4 L0,8 z" fill="#4477aa"/></marker></defs>',
             f'<text class="head" x="{_LEFT}" y="20">{escape(f"{plan.name}: {plan.collective} of {plan.ranks} ranks")}</text>']
    for (rank, lane), column in columns.items():
        name = f"rank {rank}" + (f" lane {lane}" if len(plan.lanes[rank]) > 1 else "")
        parts.append(f'<text class="head" x="{_LEFT + column * _COLUMN}" y="{_TOP - 12}">{name}</text>')
    parts += [_box(event, columns, rows) for event in events]
    parts += [_arrow(plan, event, columns, rows) for event in events if event.sent is not None]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(event: Event, columns: dict[tuple[int, int], int], rows: dict[int, int]) -> str:
    x = _LEFT + columns[event.rank, event.lane] * _COLUMN
    y = _TOP + rows[event.tick] * _ROW
    label = str(event.step)
    short = label if len(label) <= 33 else label[:32] + "…"
    return (f'<g><title>{escape(f"step {event.number}: {label}")}</title>'
            f'<rect class="{event.step.kind}" x="{x}" y="{y}" width="{_BOX}" height="{_ROW - 5}" rx="3"/>'
            f'<text x="{x + 5}" y="{y + 12}">{escape(short)}</text></g>')


def _arrow(plan: Plan, event: Event, columns: dict[tuple[int, int], int], rows: dict[int, int]) -> str:
    link_lane = plan.lanes[event.rank][event.lane].link_lane
    source = event.step.peer
    lane = next(index for index, lane in enumerate(plan.lanes[source]) if lane.link_lane == link_lane)
    begin, end = columns[source, lane], columns[event.rank, event.lane]
    x1 = _LEFT + begin * _COLUMN + (_BOX if end > begin else 0)
    x2 = _LEFT + end * _COLUMN + (0 if end > begin else _BOX)
    assert event.sent is not None
    y1, y2 = (_TOP + rows[tick] * _ROW + (_ROW - 5) / 2 for tick in (event.sent, event.tick))
    return f'<line x1="{x1}" y1="{y1:g}" x2="{x2}" y2="{y2:g}" marker-end="url(#tip)"/>'
