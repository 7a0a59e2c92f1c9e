# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny decoder of a family with its goldens, by the family's implementation in PyPI's transformers.

make_golden.py MODEL_TYPE FOLDER [KEY=VALUE…]

KEY=VALUE sets what config.json says beside the sizes below; VALUE is JSON. Writes config.json, generation_config.json, model.safetensors,
golden.json and golden.safetensors, as check_golden.py reads them. Weights are random and large enough that attention looks somewhere; a seed
of which some greedy token is nearly a tie, or ends the text, is passed over. Not part of the suite, which needs neither torch nor
transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers
from safetensors.torch import save_file

SIZES = dict(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
PROMPTS = {"p0": 1, "p1": 7, "p2": 24}
# The eager form of Falcon in transformers 5.23 adds its slopes twice, with the mask and with the scores.
ATTENTION = {"falcon": "sdpa"}
NEW_TOKENS, LEAST_MARGIN, LOGITS_STD = 24, 2e-3, 2.0


def make_model(config, seed):
    """The family's model with random weights; norms near 1, logits of a standard deviation of LOGITS_STD."""
    torch.manual_seed(seed)
    kind = transformers.AutoModelForCausalLM
    if type(config) not in kind._model_mapping:  # it stands within another's config alone
        kind = getattr(transformers, type(config).__name__.replace("Config", "ForCausalLM"))
    make = getattr(kind, "_from_config", None) or kind.from_config
    model = make(config, attn_implementation=ATTENTION.get(config.model_type, "eager")).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("A_log"):
                weight.uniform_(-4.0, 0.0)  # states that some tokens outlast
            elif "lambda_" in name:  # sums of products of two are exponents
                weight.normal_(0.0, 0.2)
            elif weight.dim() == 1 or "norm" in name.rsplit(".", 2)[-2]:  # norms of heads may be matrices
                weight.normal_(0.0 if name.endswith("bias") else 1.0, 0.2)
            else:
                weight.normal_(0.0, 1.5 / weight.shape[-1] ** 0.5)
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "feed_forward.expert_bias")):
                buffer.normal_(0.0, 0.2)
            elif name.endswith("layer_scalar"):
                buffer.uniform_(0.5, 1.5)
        logits = model(torch.randint(3, config.vocab_size, (1, 24))).logits
        model.get_output_embeddings().weight *= LOGITS_STD / logits.std()
    return model


def forward(model, tensors, name, **inputs):
    """Runs the model on one case, whose tensors and entry of golden.json it writes and returns."""
    out = model(**inputs, output_hidden_states=True)
    tensors |= {f"{name}.{key}": value for key, value in inputs.items()} | {f"{name}.logits": out.logits}
    return {"name": name, "kind": "forward", "inputs": {key: f"{name}.{key}" for key in inputs}, "outputs": {"logits": f"{name}.logits"}}


def greedy(model, tensors, name, prompt, eos):
    """The same for the greedy continuation; None where a token is nearly a tie or the end."""
    ids, picked = prompt, []
    for _ in range(NEW_TOKENS):
        logits = model(input_ids=ids).logits[:, -1]
        best = logits.topk(2).values[0]
        if best[0] - best[1] < LEAST_MARGIN or logits.argmax() == eos:
            return None
        picked.append(logits)
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
    tensors |= {f"{name}.greedy_ids": ids[:, prompt.shape[1]:], f"{name}.greedy_logits": torch.stack(picked, 1)}
    return {"name": f"{name}.greedy", "kind": "greedy", "inputs": {"input_ids": f"{name}.input_ids"}, "max_new_tokens": NEW_TOKENS,
            "outputs": {"ids": f"{name}.greedy_ids", "logits": f"{name}.greedy_logits"}}


def make_cases(model, config):
    """(cases, tensors) of prompts alone and of two of them as a left-padded batch; None where a greedy answer is unclear."""
    cases, tensors = [], {}
    draw = lambda length: torch.randint(3, config.vocab_size, (1, length))
    for name, length in PROMPTS.items():
        prompt = draw(length)
        cases.append(forward(model, tensors, name, input_ids=prompt))
        if not (answer := greedy(model, tensors, name, prompt, config.eos_token_id)):
            return None
        cases.append(answer)
    ids, mask = torch.cat([draw(7), draw(7)]), torch.ones(2, 7, dtype=torch.int64)
    ids[1, :3] = config.pad_token_id
    mask[1, :3] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cases.append(forward(model, tensors, "batch", input_ids=ids, attention_mask=mask, position_ids=positions) | {"mask": "batch.attention_mask"})
    tensors["batch.logits"] = tensors["batch.logits"] * mask[..., None]
    return cases, tensors


def write_as_published(folder, given):
    """Says once what layers of a type share, under the keys of published checkpoints, where transformers lists it layer by layer."""
    path = folder / "config.json"
    said = json.loads(path.read_text())
    if said.pop("per_layer_config", None):
        path.write_text(json.dumps(said | given, indent=2, sort_keys=True) + "\n")


def main():
    model_type, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    given = {key: json.loads(value) for key, value in (argument.split("=", 1) for argument in sys.argv[3:])}
    known = transformers.AutoConfig.for_model(model_type)
    sizes = {key: value for key, value in SIZES.items() if hasattr(known, key)}
    config = transformers.AutoConfig.for_model(model_type, **(sizes | given))
    for seed in range(1000):
        with torch.no_grad():
            model = make_model(config, seed)
            made = make_cases(model, config)
        if made:
            break
    else:
        sys.exit("every seed has an unclear greedy answer")
    cases, tensors = made
    model.save_pretrained(folder)
    write_as_published(folder, given)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "golden.safetensors")
    about = {"family": model_type, "task": "causal-lm", "model_type": model_type, "seed": seed, "torch": torch.__version__,
             "transformers": transformers.__version__, "dtype": "float32", "weights_dtype": "float32", "cases": cases}
    original = (getattr(config, "rope_parameters", None) or {}).get("original_max_position_embeddings", 0)
    if any(length <= original < length + NEW_TOKENS for length in PROMPTS.values()):
        about["rotates_by_length"] = True  # a longer sequence turns all of its keys otherwise
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{folder}: seed {seed}")


if __name__ == "__main__":
    main()
