# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# view_report.py BROWSER PAGE POINTS BUFFERS TEXT…: opens a report in a headless browser; checks what its script made (every TEXT, so
# many points of the roofline and buffers of the memory plan at least) and that something is seen.
import html
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))

from browser import pixels, view

browser, page = sys.argv[1:3]
points, buffers, texts = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]

with tempfile.TemporaryDirectory() as folder:
    dom = html.unescape(view(browser, page, folder, "--dump-dom"))
    picture = os.path.join(folder, "page.png")
    view(browser, page, folder, f"--screenshot={picture}")
    seen = {pixel for row in pixels(picture)[::4] for pixel in row}

for text in texts:
    assert text in dom, text
assert len(re.findall(r"class=\"point\"", dom)) >= points and len(re.findall(r"class=\"buffer\"", dom)) >= buffers
assert "NaN" not in dom and "undefined" not in re.sub(r"<script.*?</script>", "", dom, flags=re.S)
# The bars' blue, orange and green of the light or the dark page.
assert {bytes.fromhex("2f6fdb"), bytes.fromhex("2a9d6f")} <= seen or {bytes.fromhex("5b93f5"), bytes.fromhex("4cc596")} <= seen, len(seen)
