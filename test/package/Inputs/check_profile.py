# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_profile.py CONFIG.json PROMPT GENERATE: reads the JSON of BIN --profile of a llama or a Gemma 3. Every kernel took time in both phases, times
add up, and the operations are those of the configuration: of every matrix per token, of the head per answer, of attention per visible key."""
import json
import sys

config = json.load(open(sys.argv[1]))
prompt, generate = map(int, sys.argv[2:])
profile = json.load(sys.stdin)
layers, hidden, heads, dim = (config[key] for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "head_dim"))


def expect(condition, *said):
    if not condition:
        sys.exit(" ".join(map(str, said)))


def is_near(a, b):
    return abs(a - b) <= 1e-5 * max(abs(a), abs(b))


def matrix_flops(tokens, answers):
    attention = 2 * heads * dim + 2 * config["num_key_value_heads"] * dim
    return 2 * tokens * layers * hidden * (attention + 3 * config["intermediate_size"]) + 2 * answers * hidden * config["vocab_size"]


def visible_keys(positions):
    """Over all layers: how many keys the tokens at these positions see together."""
    kinds = config.get("layer_types") or ["full_attention"] * layers
    return sum(min(position + 1, config["sliding_window"]) if kind == "sliding_attention" else position + 1
               for kind in kinds for position in positions)


shares = [sum(kernel[phase] for kernel in profile["kernels"]) for phase in ("prefill_share", "decode_share")]
expect(profile["kernels"] and all(abs(share - 1) < 0.01 for share in shares), "shares", shares)
# The head answers once for a prompt. The first generated token stands behind the one that the cache begins with.
phases = {"prefill_profile": (prompt, 1, range(prompt)), "decode_profile": (generate, generate, range(1, generate + 1))}
for phase, (tokens, answers, positions) in phases.items():
    spent = profile[phase]
    kinds = {kernels["name"]: kernels for kernels in spent["classes"]}
    idle = [kernel["name"] for kernel in spent["kernels"] if kernel["launches"] <= 0 or kernel["seconds"] <= 0 or kernel["bytes"] <= 0]
    expect(not idle, phase, "without time or bytes:", idle)
    for part in (spent["classes"], spent["kernels"]):
        for key in ("seconds", "wait_seconds"):
            total = spent["kernel_seconds" if key == "seconds" else key]
            expect(is_near(sum(kernel[key] for kernel in part), total), phase, key, part)
    expect(is_near(spent["kernel_seconds"] + spent["wait_seconds"] + spent["other_seconds"], spent["seconds"]), phase, spent)
    # What is counted twice would take longer than the wall's clock says.
    expect(spent["other_seconds"] > 0, phase, "more time in kernels than there was:", spent["other_seconds"])
    expect(is_near(kinds["matmul"]["flops"], matrix_flops(tokens, answers)), phase, kinds["matmul"], matrix_flops(tokens, answers))
    pairs = visible_keys(positions)
    expect(is_near(kinds["attention"]["flops"], 4 * heads * dim * pairs), phase, kinds["attention"], 4 * heads * dim * pairs)
    expect(all(0 < kernels["limit_seconds"] for kernels in spent["classes"]), phase, spent["classes"])
expect(profile["peaks"]["f32"] > 0 and profile["read_bandwidth"] > 0, profile["peaks"])
