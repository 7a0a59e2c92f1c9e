# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_prompts.py BIN FOLDER: what BIN answers to prompts with images is what FOLDER/prompts.json says (make_llava_golden.py wrote it).

By a text, and by beams of one and threads that make no difference. Prints one line per broken promise; exit status 1 if there is any.
"""
import json
import pathlib
import sys

from check_texts import run


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    broken = 0
    for case in json.loads((folder / "prompts.json").read_text()):
        images = [word for name in case["images"] for word in ("--image", str(folder / name))]
        words = [*images, case["prompt"], "-n", str(len(case["ids"])), "--temp", "0", "--ignore-eos", "--print-ids"]
        for more in ([], ["--threads", "1"]):
            got = [int(word) for word in run(binary, *words, *more).split(",")]
            if got != case["ids"]:
                broken += 1
                print(f"{case['prompt']!r} {' '.join(more)}: {got}, expected {case['ids']}")
    return 1 if broken else 0


sys.exit(main())
