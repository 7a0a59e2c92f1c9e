# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""interrupt.py OUTPUT COMMAND…: interrupts a command that writes OUTPUT at several moments of its run.

Every time it must end by that signal or with a status that is not 0, leave OUTPUT's bytes as they were, and no other new file
beside it.
"""
import pathlib
import signal
import subprocess
import sys
import time

MOMENTS = [0.02, 0.1, 0.25, 0.45, 0.65, 0.85]  # shares of an undisturbed run


def main():
    output, *command = sys.argv[1:]
    path, trial = pathlib.Path(output), pathlib.Path(output + ".whole")
    start = time.monotonic()
    subprocess.run([str(trial) if word == output else word for word in command], check=True)
    whole = time.monotonic() - start
    trial.unlink()
    content, beside = path.read_bytes(), {p.name for p in path.parent.iterdir()}
    failed = interrupted = 0
    for share in MOMENTS:
        for sent in (signal.SIGINT, signal.SIGTERM):
            child = subprocess.Popen(command)
            time.sleep(share * whole)
            child.send_signal(sent)
            status = child.wait()
            if status == 0:  # it was faster this time
                path.write_bytes(content)
                continue
            interrupted += 1
            left = {p.name for p in path.parent.iterdir()} - beside
            if path.read_bytes() != content or left:
                failed += 1
                print(f"{sent.name} after {share * whole:.2f} s: status {status}, left {sorted(left)}")
    if not interrupted:
        print("no run was interrupted")
    return 1 if failed or not interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
