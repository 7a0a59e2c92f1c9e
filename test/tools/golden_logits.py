# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""golden_logits.py [--limit=ERROR] [--states] FOLDER CASE COMMAND…: runs COMMAND --io on a stored input and compares the logits with the stored ones.

FOLDER holds golden.safetensors with CASE.input_ids, CASE.attention_mask if the case has one, and CASE.logits, zeros where the mask is 0; with --states
last_hidden_state is compared, which is there as that of the class or of its base. COMMAND may begin with an emulator. Exit status 1 where an error is above 1e-4, or what is given, absolute or relative to the largest magnitude.
"""
import os
import subprocess
import sys
import tempfile

import safetensors



def main(*words):
    limit = 1e-4
    if words[0].startswith("--limit="):
        limit, words = float(words[0].removeprefix("--limit=")), words[1:]
    output = "logits"
    if words[0] == "--states":
        output, words = "last_hidden_state", words[1:]
    folder, case, *command = words
    goldens = safetensors.load(os.path.join(folder, "golden.safetensors"))
    wanted = (goldens.get(f"{case}.{output}") or goldens[f"{case}.base.{output}"])[2]
    with tempfile.TemporaryDirectory() as box:
        source, target = os.path.join(box, "in.safetensors"), os.path.join(box, "out.safetensors")
        inputs = ("input_ids", "attention_mask")
        safetensors.save(source, {name: goldens[f"{case}.{name}"] for name in inputs if f"{case}.{name}" in goldens})
        status = subprocess.run([*command, "--io", source, target]).returncode
        if status != 0:
            sys.exit(f"{command[-1]} exited with status {status}")
        got = safetensors.load(target)[output][2]
    if len(got) != len(wanted):
        sys.exit(f"{len(got)} numbers of {output}, expected {len(wanted)}")
    error = max(abs(a - b) if a == a else float("inf") for a, b in zip(got, wanted))
    limit *= max(1.0, max(map(abs, wanted)))
    print(f"{case}: max abs error {error:.2e}, limit {limit:.1e}")
    return 0 if error <= limit else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
