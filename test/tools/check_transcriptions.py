# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_transcriptions.py BIN FOLDER: what a model of speech writes of FOLDER/speech.wav, as FOLDER/transcriptions.json has it of the reference.

Each case has the flags of a command line and its lines, of token ids. Every case is run with one thread and with three, which print the same.
Prints one line per case that differs; exit status 1 if there is any.
"""
import json
import pathlib
import subprocess
import sys


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    cases, broken = json.loads((folder / "transcriptions.json").read_text()), 0
    for case in cases:
        for threads in ("1", "3"):
            command = [binary, "--audio", folder / "speech.wav", "--print-ids", "--threads", threads, *case["flags"]]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode or done.stdout.splitlines() != case["lines"]:
                broken += 1
                print(f"{' '.join(case['flags'])}: status {done.returncode}, {done.stdout.splitlines()}{done.stderr}, expected {case['lines']}")
    return 1 if broken or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
