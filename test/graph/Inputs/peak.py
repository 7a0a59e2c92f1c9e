# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""peak.py BINARY [FLAG…]: fails where a thousand runs of a graph take more memory than ten."""
import os
import subprocess
import sys


def peak(rounds):
    """KiB that the process held at most."""
    child = subprocess.Popen([*sys.argv[1:], "--bench", "--rounds", str(rounds), "--json"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{sys.argv[1]}: status {status}")
    return usage.ru_maxrss


few, many = peak(10), peak(1000)
if many > few + 1024:
    sys.exit(f"{many} KiB after 1000 runs, {few} KiB after 10")
