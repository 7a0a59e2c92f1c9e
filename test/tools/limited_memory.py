# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""limited_memory.py HEDDLE MODEL OUT: compiles under ever larger limits of address space, until it succeeds.

Each time before, the exit status is 1, one line says what lacks, and there is neither an output nor a temporary file.
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

heddle, model, out = sys.argv[1:]
STEP = 128 << 20
WORDS = ("memory", "Resource temporarily unavailable")  # of a thread


def run(limit, *arguments):
    with tempfile.TemporaryDirectory() as scratch:
        process = subprocess.run([heddle, *arguments], capture_output=True, text=True, env={**os.environ, "TMPDIR": scratch},
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        return process, os.listdir(scratch)


limit = 128 << 20
while run(limit, "--version")[0].returncode != 0:  # the libraries do not even load
    limit += STEP
refused = 0
while True:
    limit += STEP
    process, left = run(limit, "compile", model, "-o", out, "--quiet")
    if process.returncode == 0:
        break
    lines = process.stderr.splitlines()
    if process.returncode != 1 or len(lines) != 1 or not any(word in lines[0] for word in WORDS) or left or pathlib.Path(out).exists():
        sys.exit(f"{limit >> 20} MiB: status {process.returncode}, {left} left, {process.stderr!r}")
    refused += 1
print(f"refused {refused} times" if refused else "never refused")
