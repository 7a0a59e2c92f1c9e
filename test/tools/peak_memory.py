# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""peak_memory.py LIMIT COMMAND…: runs COMMAND and fails if it holds more than LIMIT MiB of memory at any time.

Memory is what is no page of a file: the system takes those back whenever it needs them. It is looked at every few milliseconds; of a
command that is over before, all its pages count.
"""
import resource
import subprocess
import sys
import time


def held(pid):
    """Bytes, or 0 where the process is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return sum(int(line.split()[1]) << 10 for line in status if line.startswith(("RssAnon:", "RssShmem:")))
    except OSError:
        return 0


def main(limit, *command):
    process, peak = subprocess.Popen(command), 0
    while process.poll() is None:
        peak = max(peak, held(process.pid))
        time.sleep(0.002)
    peak = peak or resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    print(f"{peak >> 20} MiB at most", file=sys.stderr)
    if process.returncode != 0:
        return process.returncode if process.returncode > 0 else 128 - process.returncode
    if peak > int(limit) << 20:
        sys.exit(f"peak_memory.py: {peak} bytes were held, expected at most {limit} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
