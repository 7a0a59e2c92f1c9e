# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_prompts.py BIN FOLDER: what BIN answers to prompts with images is what FOLDER/prompts.json says (make_llava_golden.py wrote it).

By a text, and by threads that make no difference; where the file has log probabilities of the answer's tokens, these within LIMIT, too. Prints one line per
broken promise; exit status 1 if there is any.
"""
import json
import pathlib
import sys

from check_texts import run

LIMIT = 1e-4


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    broken = 0
    for case in json.loads((folder / "prompts.json").read_text()):
        images = [word for name in case["images"] for word in ("--image", str(folder / name))]
        words = [*images, case["prompt"], "-n", str(len(case["ids"])), "--temp", "0", "--ignore-eos"]
        for more in ([], ["--threads", "1"]):
            got = [int(word) for word in run(binary, *words, "--print-ids", *more).split(",")]
            if got != case["ids"]:
                broken += 1
                print(f"{case['prompt']!r} {' '.join(more)}: {got}, expected {case['ids']}")
        wanted = case.get("logprobs")
        got = [json.loads(line)["logprob"] for line in run(binary, *words, "--logprobs", "1").splitlines()] if wanted else []
        if wanted and max(abs(a - b) for a, b in zip(got, wanted, strict=True)) > LIMIT:
            broken += 1
            print(f"{case['prompt']!r} --logprobs: {got}, expected {wanted}")
    return 1 if broken else 0


sys.exit(main())
