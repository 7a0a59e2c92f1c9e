# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens pages in a headless browser, for tests of what we write as pages."""
import os
import struct
import subprocess
import zlib


def view(browser, page, profile, *flags):
    """What the browser writes of a page, in whose scripts nothing may fail."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr",
               "--window-size=1200,2400", *flags, f"file://{os.path.abspath(page)}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not errors, errors
    return done.stdout


def pixels(path):
    """Rows of a PNG of 8-bit RGB or RGBA, as bytes (PNG specification, section 9: filters)."""
    data = open(path, "rb").read()
    at, chunks, width, height, depth, colour = 8, b"", 0, 0, 0, 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            chunks += body
        at += size + 12
    assert depth == 8 and colour in (2, 6), (depth, colour)
    step = 3 if colour == 2 else 4
    raw, stride, before, rows = zlib.decompress(chunks), width * step, bytes(width * step), []
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left, up = line[x - step] if x >= step else 0, before[x]
            corner = before[x - step] if x >= step else 0
            estimate = left + up - corner
            paeth = min((left, up, corner), key=lambda value: abs(estimate - value))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
        before = bytes(line)
        rows.append([before[x:x + 3] for x in range(0, stride, step)])
    return rows
