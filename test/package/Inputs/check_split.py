# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_split.py TOOLS FOLDER SPLIT WHOLE [FLAG…]: two binaries of one model, with and without split keys, generate behind a prompt of
1100 tokens, run with the flags. Ids and logits have the same bytes for both, for every number of threads, and as the logits of one prefill.
"""
import os
import struct
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
import safetensors

folder, split, whole, *common = sys.argv[2:]
NEW = 20
source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")


def run(binary, threads, ids, *flags):
    safetensors.save(source, {"input_ids": ("I64", (1, len(ids)), ids)})
    subprocess.run([binary, "--io", source, target, "--threads", str(threads), *common, *flags], check=True)
    return safetensors.load(target)


def generate(binary, threads):
    tensors = run(binary, threads, prompt, "-n", str(NEW), "--temp", "0", "--ignore-eos", "--outputs", "ids,generated_logits")
    return [tensors[name][2] for name in ("ids", "generated_logits")]


def bits(values):
    return struct.pack(f"{len(values)}f", *values)


prompt = [3 + i * i * 7 % 190 for i in range(1100)]
ids, logits = generate(split, 1)
if len(ids) != NEW or len(set(bits(logits[i:i + 8]) for i in range(0, len(logits), len(logits) // NEW))) != NEW:
    sys.exit("the logits do not change from step to step")
for binary, threads in ((split, 2), (split, 3), (whole, 1), (whole, 2)):
    again = generate(binary, threads)
    if again[0] != ids or bits(again[1]) != bits(logits):
        sys.exit(f"{binary} with {threads} threads does not give the bits of one thread")
for binary in (split, whole):
    prefill = run(binary, 2, prompt + list(ids[:-1]), "--outputs", "logits")["logits"][2][-len(logits):]
    if bits(prefill) != bits(logits):
        sys.exit(f"{binary}: generation does not give the bits of a prefill")
