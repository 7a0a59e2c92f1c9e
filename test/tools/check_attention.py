# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_attention.py HEDDLE FOLDER GOLDEN [--limit=X] [--program=FLAG]… [FLAG…]: compiles a checkpoint with FLAGs and compares what its --attention-map
writes with GOLDEN (make_attention_golden.py), each weight within X (1e-5). --program flags go to the program."""
import math
import pathlib
import subprocess
import sys
import tempfile

import safetensors

heddle, folder, golden = sys.argv[1:4]
limit, program, flags = 1e-5, [], []
for argument in sys.argv[4:]:
    name, _, value = argument.partition("=")
    if name == "--limit":
        limit = float(value)
    elif name == "--program":
        program.append(value)
    else:
        flags.append(argument)
want = safetensors.load(golden)

with tempfile.TemporaryDirectory() as scratch:
    binary, out = f"{scratch}/bin", f"{scratch}/map.safetensors"
    subprocess.run([heddle, "compile", folder, "-o", binary, "--quiet", *flags], check=True)
    command = [binary, "--attention-map", out, "--prompt-ids", ",".join(map(str, want["input_ids"][2])), *program]
    if "decoder_input_ids" in want:
        command += ["-n", "6", "--temp", "0", "--ignore-eos"]
    subprocess.run(command, check=True)
    got = safetensors.load(out)

assert sorted(got) == sorted(want), (sorted(got), sorted(want))
for name, (kind, shape, values) in want.items():
    assert got[name][:2] == (kind, shape), (name, got[name][:2], kind, shape)
    worst = max(abs(a - b) if math.isfinite(a) else math.inf for a, b in zip(got[name][2], values))
    assert worst <= (limit if kind == "F32" else 0), f"{pathlib.Path(golden).stem}: {name} differs by {worst}"
