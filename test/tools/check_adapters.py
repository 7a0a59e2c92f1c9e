# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_adapters.py HEDDLE MODEL GOLDENS BOX ADAPTER… [--target=TARGET]: one binary with several adapters, of which each sequence has its own.

MODEL is compiled with each folder ADAPTER kept apart; GOLDENS and each ADAPTER hold goldens (golden.json, golden.safetensors): of the model alone,
and with that adapter. Checked: logits and greedy ids with each adapter and with none; sequences with different adapters in one batch have the
bits that each has alone (on a device with --deterministic), whatever the number of threads; continued in a batch, they give the ids of their goldens.
"""
import json
import pathlib
import subprocess
import sys

import safetensors

LIMIT = 1e-4


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}, {done.stderr.strip()}")
    return done.stdout


class Goldens:
    def __init__(self, folder, name):
        self.name, self.tensors = name, safetensors.load(pathlib.Path(folder) / "golden.safetensors")
        self.cases = json.loads((pathlib.Path(folder) / "golden.json").read_text())["cases"]


def io(binary, box, tensors, *flags):
    safetensors.save(box / "in", tensors)
    run(binary, "--io", box / "in", box / "out", *flags)
    return safetensors.load(box / "out")


def check_alone(binary, box, goldens):
    for case in goldens.cases:
        ids = goldens.tensors[case["inputs"]["input_ids"]]
        if case["kind"] == "forward" and "mask" not in case:
            got = io(binary, box, {"input_ids": ids}, "--adapter", goldens.name)["logits"][2]
            want = goldens.tensors[case["outputs"]["logits"]][2]
            error, limit = max(abs(a - b) for a, b in zip(got, want)), LIMIT * max(1.0, max(map(abs, want)))
            if not error <= limit:
                yield f"{goldens.name}, {case['name']}: max abs error {error:.2e} is above {limit:.1e}"
        elif case["kind"] == "greedy":
            want = list(goldens.tensors[case["outputs"]["ids"]][2])
            text = run(binary, "--prompt-ids", ",".join(map(str, ids[2])), "-n", len(want), "--temp", 0, "--ignore-eos", "--print-ids",
                       "--adapter", goldens.name)
            if [int(word) for word in text.strip().split(",")] != want:
                yield f"{goldens.name}, {case['name']}: other ids"


def check_together(binary, box, all_goldens, *flags):
    prompts = [list(goldens.tensors["p2.input_ids"][2]) for goldens in all_goldens]
    numbers, width = [(i + 1) % len(all_goldens) for i in range(len(all_goldens))], len(prompts[0])  # 0: none, the last
    batch = {"input_ids": ("I64", [len(prompts), width], sum(prompts, [])), "adapter_ids": ("I64", [len(prompts)], numbers)}
    together = {threads: list(io(binary, box, batch, "--threads", threads, *flags)["logits"][2]) for threads in (1, 2, 3)}
    if together[1] != together[2] or together[1] != together[3]:
        yield "1, 2 and 3 threads give different bits"
    size = len(together[1]) // len(prompts)
    for i, goldens in enumerate(all_goldens):
        alone = io(binary, box, {"input_ids": ("I64", [1, width], prompts[i])}, "--adapter", goldens.name, *flags)["logits"][2]
        if list(alone) != together[1][i * size:(i + 1) * size]:
            yield f"{goldens.name}: other bits beside others than alone"
    wanted = [list(goldens.tensors["p2.greedy_ids"][2]) for goldens in all_goldens]
    count = len(wanted[0])
    ids = io(binary, box, batch, "-n", count, "--temp", "0", "--ignore-eos")["ids"][2]
    for i, want in enumerate(wanted):
        if list(ids[i * count:(i + 1) * count]) != want:
            yield f"{all_goldens[i].name}: other ids in a batch"


def main():
    targets = [word for word in sys.argv[1:] if word.startswith("--target=")]
    heddle, model, goldens, box, *adapters = [word for word in sys.argv[1:] if word not in targets]
    box = pathlib.Path(box)
    box.mkdir(parents=True, exist_ok=True)
    kept = [f"--adapter={pathlib.Path(adapter).name}={adapter}" for adapter in adapters]
    run(heddle, "compile", model, "-o", box / "model", "--precise", "--quiet", *kept, *targets)
    every = [Goldens(adapter, pathlib.Path(adapter).name) for adapter in adapters] + [Goldens(goldens, "none")]
    faults = [fault for one in every for fault in check_alone(box / "model", box, one)]
    faults += check_together(box / "model", box, every, *["--deterministic"] * len(targets))
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
