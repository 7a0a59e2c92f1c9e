#!/usr/bin/env python3
"""check_tokenizer.py HEDDLE FOLDER CASES.json: `heddle tokenize` against stored answers.

CASES.json holds "tokenizer", the content of a tokenizer.json, or "gguf", the keys of a GGUF file, and "cases": ids of texts, and the text that
the ids decode to. It is written by Hugging Face's tokenizers, or by cut_gguf_tokenizer.py. Prints each difference; the last line is
'N answers, M wrong'. A FOLDER that is a GGUF file is asked as it is.
"""
import json
import pathlib
import subprocess
import sys

import make_gguf


def ask(heddle, model, questions, *flags):
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([heddle, "tokenize", model, *flags], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def main():
    heddle, folder, path = sys.argv[1:]
    stored = json.loads(pathlib.Path(path).read_text())
    model = pathlib.Path(folder)
    if model.suffix != ".gguf":
        model /= "model.gguf" if "gguf" in stored else "tokenizer.json"
        model.parent.mkdir(parents=True, exist_ok=True)
        if "gguf" in stored:
            make_gguf.write(model, stored["gguf"], {})
        else:
            model.write_text(json.dumps(stored["tokenizer"]))
    texts = [case for case in stored["cases"] if "text" in case]
    pairs = [(case["text"], case["ids"], answer["ids"])
             for case, answer in zip(texts, ask(heddle, model, [{"text": case["text"]} for case in texts]), strict=True)]
    pairs += [(case["ids"], case["decoded"], answer["text"])
              for case, answer in zip(stored["cases"],
                                      ask(heddle, model, [{"ids": case["ids"]} for case in stored["cases"]], "--decode"),
                                      strict=True)]
    wrong = [pair for pair in pairs if pair[1] != pair[2]]
    for question, expected, got in wrong:
        print(f"{question!r}\n  expected {expected!r}\n  got      {got!r}")
    print(f"{len(pairs)} answers, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
