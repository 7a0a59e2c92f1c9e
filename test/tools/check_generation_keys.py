# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what programs generate under keys of generation_config.json with the ids of a file of make_generation_goldens.py.

check_generation_keys.py HEDDLE FOLDER_OF_MODELS FILE SCRATCH

Prints one line per difference; exit status 1 if there is any.
"""
import json
import pathlib
import shutil
import subprocess
import sys


def main():
    heddle, models, file, scratch = sys.argv[1:]
    goldens = json.loads(pathlib.Path(file).read_text())
    folder, wrong = pathlib.Path(scratch), 0
    for case in goldens["cases"]:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pathlib.Path(models) / case["model"], folder / "model")
        # An end that config.json names stands in for one that generation_config.json leaves out.
        config = json.loads((folder / "model" / "config.json").read_text())
        (folder / "model" / "config.json").unlink()
        (folder / "model" / "config.json").write_text(json.dumps(config | {"eos_token_id": None, "forced_eos_token_id": None}))
        (folder / "model" / "generation_config.json").unlink()
        (folder / "model" / "generation_config.json").write_text(json.dumps(case["generation"]))
        subprocess.run([heddle, "compile", folder / "model", "-o", folder / "bin", "--precise", "--quiet"], check=True)
        stated = [] if "max_length" in case["generation"] or "max_new_tokens" in case["generation"] else ["-n", str(goldens["new_tokens"])]
        said = subprocess.run([folder / "bin", "--prompt-ids", ",".join(map(str, goldens["prompt"])), "--print-ids", *stated], check=True,
                              capture_output=True, text=True).stdout
        ids = [int(id) for id in said.split(",")]
        if ids != case["ids"]:
            print(f"{case['model']}, {case['generation']}: ids {ids}, expected {case['ids']}")
            wrong += 1
    sys.exit(1 if wrong else 0)


main()
