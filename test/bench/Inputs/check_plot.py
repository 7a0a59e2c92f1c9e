# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_plot.py FILE: the roofline of report.json, whose points lie inside of it and below their roofs as their shares say."""
import math
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
root = tree.parse(sys.argv[1]).getroot()
texts = [text.text for text in root.iter(SVG + "text")]
for expected in ("Some <CPU> & more, 2 threads, 2026-01-02, commit abc1234", "30 GB/s", "f32 400", "amx-bf16 4000", "1 1b-q4_0: prompt of 512",
                 "2 1b-q4_0: generation"):
    if expected not in texts:
        sys.exit(f"no text '{expected}' among {texts}")
roofs = [[tuple(map(float, point.split(","))) for point in line.get("points").split()] for line in root.iter(SVG + "polyline")][-3:]
points = [(float(circle.get("cx")), float(circle.get("cy"))) for circle in root.iter(SVG + "circle")]
if len(points) != 2 or not all(70 <= x <= 650 and 60 <= y <= 500 for x, y in points):
    sys.exit(f"points {points}")
# One decade upwards, in pixels, from the two dashed roofs: 400 and 4000.
decade = roofs[2][0][1] - roofs[1][0][1]
(_, top), (_, compute) = roofs[1][0], points[0]
if abs((compute - top) - decade * math.log10(2)) > 0.2:
    sys.exit(f"the prompt is at half of its roof, and stands {compute - top} pixels below it; a decade is {decade}")
(x0, y0), (x1, y1) = roofs[0]
(x, y), slope = points[1], (y1 - y0) / (x1 - x0)
if abs(y - (y0 + slope * (x - x0)) + decade * math.log10(0.9)) > 0.2:
    sys.exit(f"generation is at 0.9 of the bandwidth's roof, and stands at {y} where that is at {y0 + slope * (x - x0)}")
