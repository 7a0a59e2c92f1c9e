# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables and a plot of what suite.py measured.

report.py REPORT.json [--markdown FILE] [--svg FILE]     without a file: the table on stdout

The plot is a roofline, with both axes logarithmic: operations per byte read across, operations per second upwards.
"""
import argparse
import html
import json
import math
import pathlib

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 560, 70, 250, 60, 60
COLOURS = ("#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a", "#cb912f", "#337ea9", "#787774")


def figure(value):
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def best_peer(case):
    """(name, figure) of the best peer, or (None, None)."""
    return (min if case.get("less") else max)(case["peers"].items(), key=lambda item: item[1], default=(None, None))


def ratio(case):
    """How many times better than the best peer; None without one."""
    theirs = best_peer(case)[1]
    return None if theirs is None else theirs / case["ours"] if case.get("less") else case["ours"] / theirs


def goal_text(case):
    """The bounds of the ratio, of the share of the limit or of the figure itself, and which are missed."""
    words = {"ratio": "", "share": " of the limit", "ours": ""}
    texts = []
    for goal in case.get("goals", []):
        reached = case[goal["of"]]
        sign, bound, missed = ("≥", goal["least"], reached < goal["least"]) if "least" in goal else ("≤", goal["most"], reached > goal["most"])
        texts.append(f"{sign} {f'{100 * bound:.0f} %' if goal['of'] == 'share' else f'{bound:g}'}{words[goal['of']]}" + (", missed" if missed else ""))
    return "; ".join(texts) or "–"


def limit_text(limits):
    """The limits of one number of threads, in words."""
    peaks = [f"{name} {value / 1e9:.0f} GFLOP/s" for name, value in limits.items() if name != "read_bandwidth"]
    return ", ".join([f"reads {limits['read_bandwidth'] / 1e9:.1f} GB/s"] * ("read_bandwidth" in limits) + peaks)


def markdown(report):
    lines = [f"{report['cpu']} ({' '.join(report['features'])}), {report['date']}, commit {report['commit']}, best of {report['rounds']} rounds.", ""]
    lines += [f"- {threads} thread{'s' * (threads != '1')}: {limit_text(limits)}" for threads, limits in report["limits"].items()]
    lines += ["", "| Model | What | Threads | Heddle | Best peer | Ratio | Goal | Limit | Share of limit |", "|---|---|---|---|---|---|---|---|---|"]
    for case in report["cases"]:
        peer, theirs = best_peer(case)
        limit = f"{figure(case['limit'])} by {case['bound'].replace('_', ' ')}" if case.get("limit") else "–"
        share = f"{100 * case['share']:.0f} %" if case.get("share") is not None else "–"
        noted = " ¹" if case["others_cores"] > report["quiet_cores"] else ""
        lines.append(f"| {case['model']} | {case['what']}, {case['unit']} | {case['threads']} | {figure(case['ours'])}{noted} | "
                     f"{f'{figure(theirs)} {peer}' if peer else '–'} | {figure(ratio(case))} | {goal_text(case)} | {limit} | {share} |")
    if any(case["others_cores"] > report["quiet_cores"] for case in report["cases"]):
        lines += ["", f"¹ Other processes used more than {report['quiet_cores']} cores meanwhile: no figure to judge by."]
    if report["skipped"]:
        lines += ["", "Not measured:", *(f"- {line}" for line in report["skipped"])]
    return "\n".join(lines) + "\n"


class Plot:
    """Text and lines of an SVG whose coordinates are logarithms."""

    def __init__(self, across, upwards):
        self.across, self.upwards, self.parts = across, upwards, []

    def x(self, value):
        low, high = self.across
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / low) / math.log(high / low)

    def y(self, value):
        low, high = self.upwards
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(value / low) / math.log(high / low)

    def text(self, x, y, words, anchor="start", size=12):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(words)}</text>')

    def line(self, points, colour, style=""):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" {style}/>')

    def axes(self):
        for exponent in range(math.ceil(math.log10(self.across[0])), math.floor(math.log10(self.across[1])) + 1):
            self.line([(10 ** exponent, low) for low in self.upwards], "#e3e2e0")
            self.text(self.x(10 ** exponent), HEIGHT - BOTTOM + 18, f"{10 ** exponent:g}", "middle")
        for exponent in range(math.ceil(math.log10(self.upwards[0])), math.floor(math.log10(self.upwards[1])) + 1):
            self.line([(low, 10 ** exponent) for low in self.across], "#e3e2e0")
            self.text(LEFT - 8, self.y(10 ** exponent) + 4, f"{10 ** exponent:g}", "end")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 42, "operations per byte", "middle")
        self.text(LEFT - 8, TOP - 12, "GFLOP/s", "end")

    def roofs(self, limits):
        bandwidth = limits["read_bandwidth"] / 1e9
        peaks = sorted(((value / 1e9, name) for name, value in limits.items() if name != "read_bandwidth"), reverse=True)
        self.line([(self.across[0], bandwidth * self.across[0]), (peaks[0][0] / bandwidth, peaks[0][0])], "#37352f")
        self.text(self.x(self.across[0]) + 6, self.y(bandwidth * self.across[0]) - 10, f"{bandwidth:.0f} GB/s")
        for peak, name in peaks:
            self.line([(peak / bandwidth, peak), (self.across[1], peak)], "#37352f", 'stroke-dasharray="4 3"')
            self.text(WIDTH - RIGHT - 4, self.y(peak) - 4, f"{name} {peak:.0f}", "end", 10)

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#37352f">\n'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def roofline(report):
    """The cases of the most threads whose bytes and operations are known."""
    threads = max(report["limits"], key=int, default=None)
    limits = report["limits"].get(threads, {})
    cases = [case for case in report["cases"] if str(case["threads"]) == threads and case.get("bytes") and case.get("flops")]
    if not cases or len(limits) < 2 or "read_bandwidth" not in limits:
        return None
    points = [(case["flops"] / case["bytes"], case["ours"] * case["flops"] / 1e9) for case in cases]
    peaks = [value / 1e9 for name, value in limits.items() if name != "read_bandwidth"]
    ridge = max(peaks) / (limits["read_bandwidth"] / 1e9)
    plot = Plot((min([1.0, *(0.5 * x for x, _ in points)]), 4 * max([ridge, *(x for x, _ in points)])),
                (min([*(0.3 * y for _, y in points), 0.5 * limits["read_bandwidth"] / 1e9]), 3 * max([*peaks, *(y for _, y in points)])))
    plot.text(LEFT, 20, f"{report['cpu']}, {threads} thread{'s' * (threads != '1')}, {report['date']}, commit {report['commit']}")
    plot.axes()
    plot.roofs(limits)
    for index, (case, (x, y)) in enumerate(zip(cases, points)):
        colour, line = COLOURS[index % len(COLOURS)], TOP + 16 * index
        plot.parts.append(f'<circle cx="{plot.x(x):.1f}" cy="{plot.y(y):.1f}" r="5" fill="{colour}"/>')
        plot.text(plot.x(x) + 7, plot.y(y) + 4, str(index + 1), size=10)
        plot.text(WIDTH - RIGHT + 12, line, f"{index + 1} {case['model']}: {case['what']}", size=11)
    return plot.svg()


def write(report, folder):
    """report.json, report.md and roofline.svg, each whole or as it was; returns the table."""
    table = markdown(report)
    files = {"report.json": json.dumps(report, indent=1) + "\n", "report.md": table, "roofline.svg": roofline(report)}
    for name, text in files.items():
        if text:
            (folder / f"{name}.part").write_text(text)
            (folder / f"{name}.part").replace(folder / name)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    report = json.loads(options.report.read_text())
    if options.svg and (drawn := roofline(report)):
        options.svg.write_text(drawn)
    if options.markdown:
        options.markdown.write_text(markdown(report))
    if not options.svg and not options.markdown:
        print(markdown(report), end="")


if __name__ == "__main__":
    main()
