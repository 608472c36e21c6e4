// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/report_html.h"

#include <algorithm>
#include <cstdio>

#include "tools/starling/report_svg.h"

namespace sl::tools {
namespace {

// Two sets of colours, chosen by what the reader's system prefers. --c0 ... --c7 tell algorithms apart.
constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#171b22;--soft:#5b6472;--rule:#e2e5ea;--grid:#e9ebef;
--out:#2563c9;--in:#d2691e;--good:#15803d;--goodbg:#e3f4e8;--bad:#b91c1c;--badbg:#fbe5e5;
--c0:#0f8b8d;--c1:#8457c5;--c2:#d1477a;--c3:#7c8c1f;--c4:#3d7bd1;--c5:#b7791f;--c6:#5d6d7e;--c7:#2f9e58}
@media (prefers-color-scheme:dark){:root{--bg:#0f1216;--card:#181c22;--ink:#e8ebf0;--soft:#98a2b1;--rule:#2a3039;
--grid:#252b33;--out:#7db0ff;--in:#f2a65a;--good:#6fdc94;--goodbg:#16301f;--bad:#ff8b8b;--badbg:#3a1a1c;
--c0:#4fc7c8;--c1:#b596ee;--c2:#f283ab;--c3:#bccb5a;--c4:#85b3f5;--c5:#e3b15a;--c6:#9fb0c2;--c7:#6cd394}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1440px;margin:0 auto;padding:36px 28px 60px}
h1{font-size:28px;line-height:1.2;margin:0;letter-spacing:-.01em}
h2{font-size:19px;margin:44px 0 12px}
h3{font-size:16px;margin:0}
p{margin:6px 0;max-width:80ch}
.soft{color:var(--soft)}
.top{display:flex;flex-wrap:wrap;gap:14px 28px;align-items:center;justify-content:space-between}
.verdict{font-weight:600;padding:8px 16px;border-radius:99px;background:var(--goodbg);color:var(--good)}
.verdict.no{background:var(--badbg);color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(175px,1fr));gap:12px;margin:24px 0 0}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:12px 16px}
.tile b{display:block;font-size:21px;line-height:1.3;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;color:var(--soft);font-size:13.5px;margin:0 0 14px}
.legend i{display:inline-block;width:20px;height:0;border-top:2.5px solid;vertical-align:middle;margin-right:7px}
.legend i.box{height:9px;width:16px;border:0;border-radius:2px}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(400px,100%),1fr));gap:16px}
.panel{background:var(--card);border:1px solid var(--rule);border-radius:14px;padding:16px 16px 8px}
.panel header{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:baseline;gap:2px 10px}
.panel header span{color:var(--soft);font-size:13px;font-variant-numeric:tabular-nums}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}
svg .pt{font-weight:600;fill:var(--ink)}
.grid{stroke:var(--grid);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.mark{stroke:var(--card);stroke-width:1}
.line.out{stroke:var(--out)}.line.in{stroke:var(--in);stroke-dasharray:5 3}
.mark.out,.spread.out{fill:var(--out)}.mark.in,.spread.in{fill:var(--in)}
.mark.wrong{fill:var(--bad);stroke:var(--bad);r:5px}
.spread{opacity:.16}.hit{fill:transparent}.hit:hover{fill:var(--soft);fill-opacity:.25}
.c0{fill:var(--c0);background:var(--c0)}.c1{fill:var(--c1);background:var(--c1)}.c2{fill:var(--c2);background:var(--c2)}
.c3{fill:var(--c3);background:var(--c3)}.c4{fill:var(--c4);background:var(--c4)}.c5{fill:var(--c5);background:var(--c5)}
.c6{fill:var(--c6);background:var(--c6)}.c7{fill:var(--c7);background:var(--c7)}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:14px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:5px 12px;text-align:right;white-space:nowrap}
th{font-weight:600;color:var(--soft);border-bottom:1px solid var(--rule)}
tr.over th{border:0;color:var(--ink);padding-top:12px;padding-bottom:0}
td.l,th.l{text-align:left}
td.why{white-space:normal;min-width:24ch;color:var(--soft)}
tr.head td{font-weight:650;text-align:left;padding-top:18px;font-size:14.5px;border-bottom:1px solid var(--rule)}
tbody tr:not(.head):hover{background:color-mix(in srgb,var(--out) 7%,transparent)}
.wrong{color:var(--bad);font-weight:700}
td i.box{display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:8px}
.fail{background:var(--badbg);color:var(--bad);border-radius:8px;padding:8px 12px;white-space:pre-wrap;font-size:13.5px}
@media print{main{padding:0}.panel{break-inside:avoid}}
)";

std::string Tile(const std::string& value, const std::string& label) {
  return "<div class=\"tile\"><b>" + Escaped(value) + "</b><span>" + Escaped(label) + "</span></div>";
}

// The best half of all points by `better`, or null.
template <typename Better>
std::pair<const ReportPanel*, const ReportHalf*> Best(const Report& report, Better better) {
  std::pair<const ReportPanel*, const ReportHalf*> best{nullptr, nullptr};
  for (const ReportPanel& panel : report.panels) {
    for (const ReportPoint& point : panel.points) {
      for (const ReportHalf* half : {&point.out_of_place, &point.in_place}) {
        if (half->measured && half->time_us > 0 && (!best.second || better(*half, *best.second))) best = {&panel, half};
      }
    }
  }
  return best;
}

std::string TilesHtml(const Report& report) {
  std::string html = "<div class=\"tiles\">";
  html += Tile(std::to_string(report.ranks), "ranks, one process each, on " + std::to_string(report.cores) + " cores");
  html += Tile(std::to_string(report.Points()), "measurements, every one checked");
  html += Tile(std::to_string(report.Wrong()), "wrong elements");
  auto [fast_panel, fast] = Best(report, [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  if (fast) html += Tile(MicrosecondsText(fast->time_us), "lowest time (" + fast_panel->collective + ")");
  auto [wide_panel, wide] = Best(report, [](const auto& a, const auto& b) { return a.busbw > b.busbw; });
  if (wide) html += Tile(BandwidthText(wide->busbw), "highest bus bandwidth (" + wide_panel->collective + ")");
  return html + "</div>";
}

std::string LegendHtml(const std::map<std::string, int>& colours) {
  std::string html =
      "<div class=\"legend\"><span><i style=\"color:var(--out)\"></i>out of place</span>"
      "<span><i style=\"color:var(--in);border-top-style:dashed\"></i>in place</span>";
  for (const auto& [algorithm, colour] : colours) {
    html += "<span><i class=\"box c" + std::to_string(colour) + "\"></i>" + Escaped(algorithm) + "</span>";
  }
  return html + "</div>";
}

std::string PanelHtml(const ReportPanel& panel, const ReportScale& scale, const std::map<std::string, int>& colours) {
  std::string html = "<section class=\"panel\"><header><h3>" + Escaped(panel.collective) + "</h3>";
  if (!panel.points.empty()) {
    const ReportPoint& first = panel.points.front();
    const ReportPoint& last = panel.points.back();
    html += "<span>" + BytesText(first.bytes) + ": " + MicrosecondsText(first.out_of_place.time_us) + " · " +
            BytesText(last.bytes) + ": " + BandwidthText(last.out_of_place.busbw) + "</span>";
  }
  html += "</header>";
  if (!panel.failure.empty()) html += "<div class=\"fail\">" + Escaped(panel.failure) + "</div>";
  if (!panel.points.empty()) html += PanelSvg(panel, scale, colours);
  return html + "</section>";
}

std::string HalfCells(const ReportHalf& half) {
  if (!half.measured) return "<td class=\"soft\">–</td><td class=\"soft\">–</td>";
  return "<td>" + MicrosecondsText(half.time_us) + "</td><td>" + BandwidthText(half.busbw) + "</td>";
}

std::string RowHtml(const ReportPoint& point, const std::map<std::string, int>& colours) {
  const uint64_t wrong = point.out_of_place.wrong + point.in_place.wrong;
  std::string html = "<tr><td>" + BytesText(point.bytes) + "</td><td>" + std::to_string(point.count) + "</td>" +
                     HalfCells(point.out_of_place) + HalfCells(point.in_place);
  html +=
      std::string("<td") + (wrong ? " class=\"wrong\"" : "") + ">" + std::to_string(wrong) + "</td><td class=\"l\">";
  auto colour = colours.find(point.algorithm);
  if (colour != colours.end()) html += "<i class=\"box c" + std::to_string(colour->second) + "\"></i>";
  html += point.ServedText().empty() ? "<span class=\"soft\">not reported</span>" : Escaped(point.ServedText());
  return html + "</td><td class=\"l why\">" + Escaped(point.reason) + "</td></tr>";
}

std::string TableHtml(const Report& report, const std::map<std::string, int>& colours) {
  std::string html =
      "<div class=\"scroll\"><table><thead><tr class=\"over\"><th></th><th></th><th colspan=\"2\">out of place</th>"
      "<th colspan=\"2\">in place</th><th></th><th></th><th></th></tr><tr><th>size</th><th>count</th><th>time</th>"
      "<th>bus bandwidth</th><th>time</th><th>bus bandwidth</th><th>wrong</th><th class=\"l\">served by</th>"
      "<th class=\"l\">because</th></tr></thead><tbody>";
  for (const ReportPanel& panel : report.panels) {
    const std::string op = panel.op == "none" ? "" : ", " + panel.op;
    html += "<tr class=\"head\"><td colspan=\"9\">" + Escaped(panel.collective) + " <span class=\"soft\">" +
            Escaped(panel.type + op) + "</span></td></tr>";
    for (const ReportPoint& point : panel.points) html += RowHtml(point, colours);
  }
  return html + "</tbody></table></div>";
}

std::string VerdictHtml(const Report& report) {
  if (report.Good()) return "<div class=\"verdict\">every result is right</div>";
  if (report.Wrong()) return "<div class=\"verdict no\">" + std::to_string(report.Wrong()) + " wrong elements</div>";
  return "<div class=\"verdict no\">not everything ran</div>";
}

constexpr char kHow[] =
    "<h2>How it was measured</h2><p class=\"soft\">Every rank is a process of its own on host memory. A time is the "
    "mean of "
    "operations issued back to back between two barriers, averaged over the ranks; what is shown is the median of "
    "several "
    "such samples, and the shaded area spans the fastest and the slowest. Bus bandwidth is nccl-tests' figure: the "
    "payload "
    "times what the algorithm must move at least, over time, so that it compares with the speed of the memory or link. "
    "After "
    "the timing every collective runs once more on fresh data, and each element of every rank is compared with an "
    "independently computed value. Both axes are logarithmic and the same in all panels. Where ranks outnumber cores, "
    "they "
    "take turns, and small sizes show that.</p>";

}  // namespace

std::string ReportHtml(const Report& report) {
  const ReportScale scale = ScaleOf(report);
  const std::map<std::string, int> colours = ColoursOf(report);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>Starling: " +
      std::to_string(report.panels.size()) + " collectives over " + std::to_string(report.ranks) +
      " ranks</title><style>" + kStyle + "</style></head><body><main>";
  html += "<div class=\"top\"><div><h1>Collectives over " + std::to_string(report.ranks) +
          " ranks</h1><p class=\"soft\">" +
          Escaped("Starling, profile " + report.profile + " · " + report.processor + ", " + report.host + " · " +
                  report.date) +
          "</p></div>" + VerdictHtml(report) + "</div>" + TilesHtml(report);
  html += "<h2>Time and bandwidth against size</h2>" + LegendHtml(colours) + "<div class=\"panels\">";
  for (const ReportPanel& panel : report.panels) html += PanelHtml(panel, scale, colours);
  html += "</div><h2>Every point, and what served it</h2>" + TableHtml(report, colours) + kHow;
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", report.nccl_version / 10000, report.nccl_version / 100 % 100,
           report.nccl_version % 100);
  return html + "<p class=\"soft\">Library: " + Escaped(report.library) + ", NCCL API " + version +
         "</p></main></body></html>\n";
}

}  // namespace sl::tools
