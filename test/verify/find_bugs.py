# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# find_bugs.py HEDDLE PLUGIN MODELS: runs every seeded bug through `heddle verify` on a model that has a place for it; verify must
# blame the seeded pass. The same models must be clean without a bug.
import re
import subprocess
import sys

heddle, plugin, models = sys.argv[1:]

# Model and extension point of each bug.
places = {
    "llama after-import": "bug-scale bug-not-causal bug-rope-pairs bug-rope-direction bug-rope-lost bug-eps bug-norm-weights bug-residual "
                          "bug-residual-twice bug-eps-lost bug-final-norm "
                          "bug-gate-up bug-activation bug-layer-skipped bug-layer-twice bug-query-heads bug-key-group",
    "llama after-optimize": "bug-cache-swap bug-positions bug-sequences bug-cache-layer bug-projections bug-bf16",
    "llama after-schedule": "bug-memory bug-columns",
    "mistral after-import": "bug-window bug-window-long",
    "gpt2 after-import": "bug-layer-norm-eps bug-learned-positions",
    "llama_yarn after-import": "bug-rope-factor",
    "gemma3_text after-import": "bug-rope-tables",
    "gemma2 after-import": "bug-no-window bug-softcap bug-logit-cap bug-norm-offset bug-embedding-scale",
    "gemma2 after-optimize": "bug-kv-windows",
    "texts/dense_embed after-import": "bug-dense-bias",
    "qwen2 after-import": "bug-bias bug-value-group",
    "qwen3_moe after-import": "bug-top-k bug-experts bug-expert-halves bug-normalize",
    "gemma4_text_moe after-import": "bug-expert-scales bug-router-input",
    "qwen3_5_text after-import": "bug-decay bug-delta-rule bug-taps",
    "qwen3_5_text after-optimize": "bug-state-parts",
    "deepseek_v2 after-import": "bug-absorbed-factor bug-absorbed-scale bug-rope-offset",
    "deepseek_v3 after-import": "bug-routing-scale bug-groups bug-correction bug-shared-expert",
}


def verify(model, *flags):
    command = [heddle, "verify", f"{models}/{model}", "--each-pass", f"--load-pass-plugin={plugin}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


failures, found = [], 0
for model in sorted({place.split()[0] for place in places}):
    code, said = verify(model)
    if code:
        failures.append(f"{model} without a bug: {said}")
for place, bugs in places.items():
    model, point = place.split()
    for bug in bugs.split():
        code, said = verify(model, f"--add-pass={point}:{bug}")
        if code == 1 and re.search(f"after pass '{bug}'(, result \\d+ of '\\w+' differs|: 'heddle)", said):
            found += 1
            print(f"{bug}: {said.strip().splitlines()[-1]}")
        else:
            failures.append(f"{bug} on {model}: exit code {code}: {said}")
print(f"{found} of {sum(len(bugs.split()) for bugs in places.values())} bugs named")
sys.exit("\n".join(failures) or 0)
