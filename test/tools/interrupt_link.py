# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""interrupt_link.py OUTPUT COMMAND…: interrupts a command that writes OUTPUT while the linker runs, whatever the time.

A linker that waits stands in for ld.lld. The command alone, and its whole process group as by Ctrl-C, must end by the signal, or
with a status that is not 0 where it learns of the linker's death first. It must leave no file in the folder of OUTPUT nor in the
one for temporary files; nor may the linker that outlived it.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# It says where it is, and when it may go on it writes as a linker would.
LINKER = """#!/bin/sh
: > "$HEDDLE_TEST_LINKS"
while [ ! -e "$HEDDLE_TEST_GO" ]; do sleep 0.05; done
echo linked
: > "$HEDDLE_TEST_LINKED"
"""


def wait_for(path, what):
    deadline = time.monotonic() + 120
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not come in 120 s")
        time.sleep(0.02)


def faults(output, command, sent, group, folder):
    tools, temporary = folder / "tools", folder / "tmp"
    for made in (tools, temporary):
        made.mkdir()
    for name in ("ld.lld", "ld.lld-22"):
        linker = tools / name
        linker.write_text(LINKER)
        linker.chmod(0o755)
    links, go, linked = (folder / name for name in ("links", "go", "linked"))
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", TMPDIR=str(temporary), HEDDLE_TEST_LINKS=str(links),
                       HEDDLE_TEST_GO=str(go), HEDDLE_TEST_LINKED=str(linked))
    beside = set(output.parent.iterdir())
    child = subprocess.Popen(command, env=environment, start_new_session=True)
    wait_for(links, "the linker")
    (os.killpg if group else os.kill)(child.pid, sent)
    status = child.wait()
    go.touch()
    if not group:
        wait_for(linked, "the end of the linker")
    if status == 0:
        yield "status 0"
    for left in sorted(list(temporary.iterdir()) + list(set(output.parent.iterdir()) - beside)):
        yield f"left {left}"


def main():
    output, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    failed = False
    for sent, group in ((signal.SIGTERM, False), (signal.SIGINT, True)):
        with tempfile.TemporaryDirectory() as folder:
            for fault in faults(output, command, sent, group, pathlib.Path(folder)):
                print(f"{sent.name} to {'the group' if group else 'the command'}: {fault}")
                failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
