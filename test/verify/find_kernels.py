# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# find_kernels.py HEDDLE PLUGIN MODELS: lets code generation go wrong as seeded-kernels/ does; `heddle verify` must name the kernel
# that suffers, with its layer and the weight that it reads.
import re
import subprocess
import sys

heddle, plugin, models = sys.argv[1:]

wrong = r"is wrong in the binary, result 0: NMSE \S+ \(limit \S+\), row \d+, column \d+ is \S+, expected"
dead = r"did not end in the binary: Segmentation fault"
ofWeight = r"error: kernel heddle\.\w+ of layer 1 on (?:\S+, )*{weight}(?:, \S+)* \(compiled as \S+\) "
# What verify must say of each bug.
verdicts = {
    "bug-narrow-offset": ofWeight + wrong,
    "bug-other-weight": ofWeight + wrong,
    "bug-far-offset": ofWeight + dead,
    # Kernels of a graph are not run one by one.
    "bug-dense-bias": r"error: the binary moved a result that the passes did not: sentence_embedding differ: NMSE",
    "bug-cache-layer": r"error: kernel heddle\.kv_append of layer 1 \(compiled as \S+\) is wrong in the binary, keys: NMSE",
}
places = {
    "llama": ["bug-narrow-offset", "bug-other-weight", "bug-far-offset", "bug-cache-layer"],
    "mixtral": ["bug-other-weight", "bug-far-offset"],
    "gpt2": ["bug-other-weight"],
    "deepseek_v2": ["bug-other-weight", "bug-cache-layer"],
    "bert": ["bug-other-weight", "bug-far-offset"],
    "texts/dense_embed": ["bug-dense-bias"],
}

failures, found = [], 0
for model, bugs in places.items():
    for bug in bugs:
        command = [heddle, "verify", f"{models}/{model}", "--tokens=5", f"--load-pass-plugin={plugin}",
                   f"--add-pass=after-schedule:{bug}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        planted = re.search(r"planted in: (\S+)", done.stderr)
        verdict = verdicts[bug].replace("{weight}", re.escape(planted.group(1)) if planted else "nothing")
        # The passes are right: they were all checked, and the binary alone is at fault.
        if done.returncode == 1 and "schedule " in done.stdout and re.search(verdict, done.stderr):
            found += 1
            print(f"{model}, {bug}: {done.stderr.strip().splitlines()[-1]}")
        else:
            failures.append(f"{bug} on {model}: exit code {done.returncode}: {done.stdout}{done.stderr}")
print(f"{found} of {sum(map(len, places.values()))} kernels named")
sys.exit("\n".join(failures) or 0)
