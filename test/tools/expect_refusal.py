# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""expect_refusal.py OUTPUT PATTERN COMMAND…: checks that a command is refused as its user's fault.

Exit status 2; one line on stderr, under 4 KB, in which PATTERN (a regular expression, case-insensitive) is found; nothing on
stdout; nothing beside OUTPUT that was not there, OUTPUT itself included: its folder is the test's own, not the one in which lit lets all tests
of a folder write at the same time.
"""
import pathlib
import re
import subprocess
import sys


def listing(output):
    folder = pathlib.Path(output).parent
    return {str(path) for path in folder.iterdir()} if folder.is_dir() else set()


def faults(output, pattern, command):
    before = listing(output)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text = done.stderr.decode(errors="replace")
    if done.returncode != 2:
        yield f"exit status {done.returncode}, expected 2"
    if text.count("\n") != 1 or not text.endswith("\n") or len(done.stderr) >= 4096:
        yield "expected one line under 4 KB on stderr"
    if not re.search(pattern, text, re.IGNORECASE):
        yield f"'{pattern}' is not in the message"
    if done.stdout:
        yield "expected nothing on stdout"
    for path in sorted(listing(output) - before):
        yield f"left behind: {path}"
    if list(faults_of_message(text)):
        yield "the message holds control characters"


def faults_of_message(text):
    """Characters that would move a terminal's cursor."""
    return (character for character in text.rstrip("\n") if ord(character) < 32 or ord(character) == 127)


def main():
    output, pattern, *command = sys.argv[1:]
    if pathlib.Path(output).absolute().parent.name == "Output":
        sys.exit(f"{output}: other tests write into that folder, expected one of this test, such as %t/out")
    found = list(faults(output, pattern, command))
    for fault in found:
        print(f"{' '.join(command)}: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
