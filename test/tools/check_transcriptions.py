# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_transcriptions.py BIN FOLDER SCRATCH [FILE]: what a model of speech writes of FOLDER/speech.wav, as FOLDER/FILE (transcriptions.json) has it of the reference.

Each case has the flags of a command line and its lines. It hears the first "samples" of the sound, or the whole "times" times with half a second
of silence behind each. Every case is run with one thread and with three, which print the same. SCRATCH: a folder for what it hears.
Prints one line per case that differs; exit status 1 if there is any.
"""
import json
import pathlib
import subprocess
import sys
import wave


def arrange(sound, case, out):
    """Writes what a case hears."""
    with wave.open(str(sound)) as whole, wave.open(str(out), "wb") as part:
        part.setparams(whole.getparams())
        if "samples" in case:
            return part.writeframes(whole.readframes(case["samples"]))
        silence = bytes(whole.getframerate() // 2 * whole.getsampwidth())
        part.writeframes((whole.readframes(whole.getnframes()) + silence) * case["times"])


def main():
    binary, folder, sound = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]) / "heard.wav"
    name = sys.argv[4] if len(sys.argv) > 4 else "transcriptions.json"
    cases, broken = json.loads((folder / name).read_text()), 0
    for case in cases:
        arrange(folder / "speech.wav", case, sound)
        for threads in ("1", "3"):
            command = [binary, "--audio", sound, "--threads", threads, *case["flags"]]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode or done.stdout.splitlines() != case["lines"]:
                broken += 1
                print(f"{case}: status {done.returncode}, {done.stdout.splitlines()}{done.stderr}")
    return 1 if broken or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
