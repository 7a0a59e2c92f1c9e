# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# view_attention.py BROWSER PAGE TENSORS TEXT…: opens a page of --attention-map in a headless browser, works its pickers and keys as a person
# would, and compares the weights that it holds with those of TENSORS, the same command's .safetensors. TEXT: what the page says.
import html
import json
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))

import safetensors
from browser import pixels, view

PROBE = """<pre id="probe"></pre><script>
const made = { dom: document.documentElement.outerHTML, weights: [], maps: [], alerts: window.alerted === undefined };
const image = () => $("map").toDataURL();
const change = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change")); };
const differs = act => { const before = image(); act(); return image() != before; };
const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
data.groups.forEach((each, kind) => {
  change("kind", kind);
  each.layers.forEach((of, l) => {
    change("layer", l);
    made.weights.push(Array.from({ length: of.heads }, (_, h) => queries().map((_, i) => keys().map((_, j) => weight(of, h, i, j)))));
    for (let h = 0; h < of.heads; ++h) {
      change("head", h);
      made.maps.push(image());
    }
  });
});
change("kind", 0); change("layer", 0); change("head", 0);
made.thumbnails = document.querySelectorAll("#heads canvas").length;
made.button = differs(() => document.querySelectorAll("#heads button")[1].click());
made.picked = state.head;
made.last = differs(() => document.querySelectorAll("#tokens span")[queries().length - 1].click()) && state.query == queries().length - 1;
made.token = differs(() => document.querySelectorAll("#tokens span")[0].click()) && state.query == 0;
document.querySelectorAll("#tokens span")[queries().length - 1].click();
made.best = [...document.querySelectorAll("#best tr")].map(row => row.textContent);
made.arrow = differs(() => press($("map"), "ArrowUp")) && state.query == queries().length - 2;
made.keys = differs(() => press(document, "]")) && state.layer == 1;
made.first = differs(() => { $("first").checked = true; $("first").dispatchEvent(new Event("change")); });
made.colour = differs(() => change("colour", "row"));
$("more").click();
made.all = !$("all").hidden && $("all").width > 0;
$("probe").textContent = JSON.stringify({ ...made, maps: new Set(made.maps).size, pictures: made.maps.length });
</script>"""

browser, page, tensors, texts = *sys.argv[1:4], sys.argv[4:]
text = pathlib.Path(page).read_text()
with tempfile.TemporaryDirectory() as folder:
    picture = os.path.join(folder, "page.png")
    view(browser, page, folder, f"--screenshot={picture}")
    seen = {pixel for row in pixels(picture)[::4] for pixel in row}
    probed = os.path.join(folder, "probed.html")
    pathlib.Path(probed).write_text(text.replace("</html>", PROBE + "</html>"))
    answer = view(browser, probed, folder, "--dump-dom")

made = json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', answer, re.S).group(1)))
dom = html.unescape(made["dom"])  # as the page was, before anything was pressed
for said in texts:
    assert said in dom, said
shown = re.sub(r"<script>.*?</script>", "", dom, flags=re.S)
assert "NaN" not in shown and "undefined" not in shown
# The middle of the colours, on the light or the dark page, and more than a few shades.
assert len(seen) > 30, len(seen)
assert made["maps"] == made["pictures"], (made["maps"], made["pictures"])  # each layer and head has a picture of its own
for promise in ("alerts", "button", "token", "last", "arrow", "keys", "first", "colour", "all"):
    assert made[promise] is True, promise
assert made["picked"] == 1 and made["thumbnails"] == len(made["weights"][0]) and made["best"], made["best"]

want = safetensors.load(tensors)
order = [name for prefix in ("attentions.", "decoder_attentions.", "cross_attentions.", "encoder_attentions.") for name in want if name.startswith(prefix)]
assert len(order) == len(made["weights"])
for name, got in zip(order, made["weights"]):
    _, shape, values = want[name]
    flat = [weight for head in got for row in head for weight in row]
    assert len(flat) == len(values), (name, len(flat), shape)
    for weight, exact in zip(flat, values):
        assert abs(max(weight, 0) - exact) <= exact ** 0.5 / 255 + 1e-5, (name, weight, exact)
        assert weight >= 0 or exact == 0, name
