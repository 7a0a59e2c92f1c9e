# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes an adapter of a tiny model and its goldens, by PyPI's peft over the model's class in transformers.

make_adapter.py BASE FOLDER [KEY=VALUE…]

BASE is a folder of test/models, or a GGUF file of a Llama. KEY=VALUE is an argument of peft's config of peft_type (LORA without one); VALUE is JSON. Writes adapter_config.json,
adapter_model.safetensors, golden.json and golden.safetensors, as check_golden.py --model=BASE reads them. Goldens are what the base computes with
the adapter beside it; what peft merges must agree but where embeddings are tied, which its merge changes in both places. Over quantised weights
they are of the merged matrices in f16 (--weights=f16). Of virtual tokens nothing is merged, and logits are those of the tokens behind them. All that is trained is random. Not part of the suite, which needs none of these:
python -m pip install torch transformers peft
"""
import json
import pathlib
import sys
import types

TOOLS = sys.path[0]
import make_golden  # removes this folder from sys.path, where safetensors.py is not PyPI's

sys.path.insert(0, TOOLS)
import make_encoder_golden

sys.path.insert(0, TOOLS)
import make_seq2seq_golden

import peft
import torch
import transformers
from safetensors.torch import save_file

AGREE = 2e-4


def load(base):
    if base.suffix == ".gguf":
        return transformers.AutoModelForCausalLM.from_pretrained(base.parent, gguf_file=base.name, dtype=torch.float32,
                                                                 attn_implementation="eager")
    name = json.loads((base / "config.json").read_text())["architectures"][0]
    return getattr(transformers, name).from_pretrained(base, attn_implementation="eager", dtype=torch.float32)


def make_adapted(base, given, seed):
    """The base with a random adapter that moves its results."""
    torch.manual_seed(seed)
    kind = given.get("peft_type", "LORA")
    config = peft.LoraConfig(init_lora_weights=False, **given) if kind == "LORA" else peft.get_peft_config(given)
    model = peft.get_peft_model(load(base).eval(), config)
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        if "magnitude" in name:
            weight *= 1 + 0.2 * torch.randn_like(weight)
        elif "lora_" in name:
            weight.normal_(0.0, 0.5 / weight.shape[-1] ** 0.5)
        elif "ia3_l" in name:
            weight.normal_(1.0, 0.5)
        elif "prompt_encoder" in name:
            weight.normal_(0.0, 1.0 if "embedding" in name else 1.5 / weight.shape[-1] ** 0.5)
        else:
            weight += 0.1 * torch.randn_like(weight)
    return model.eval()


class BehindVirtual:
    """A model with virtual tokens, whose logits are those of the tokens that it was given. Tokens that a mask leaves out are left out: peft's prompts
    would count their positions."""

    def __init__(self, model):
        self.model, self.own = model, model.active_peft_config.num_virtual_tokens

    def __call__(self, input_ids, attention_mask=None, position_ids=None, **options):
        if attention_mask is None:
            out = self.model(input_ids=input_ids, **options)
            out.logits = out.logits[:, -input_ids.shape[1]:]
            return out
        rows = [self(input_ids=ids[mask.bool()][None], **options) for ids, mask in zip(input_ids, attention_mask)]
        logits = torch.zeros(*input_ids.shape, rows[0].logits.shape[-1])
        for row, out, mask in zip(logits, rows, attention_mask):
            row[mask.bool()] = out.logits[0]
        return types.SimpleNamespace(logits=logits)


def merged_in_f16(model):
    changed = [name for name, module in model.base_model.model.named_modules() if hasattr(module, "lora_A") or hasattr(module, "ia3_l")]
    merged = model.merge_and_unload()
    for name in changed:
        weight = merged.get_submodule(name).weight
        weight.copy_(weight.half().float())
    return merged


def cases_of(model, config, is_encoder):
    if is_encoder:
        tensors = {}
        return list(make_encoder_golden.text_cases(model, config, tensors)), tensors
    if config.is_encoder_decoder:
        return make_seq2seq_golden.make_cases(model, config)
    return make_golden.make_cases(model, config)


def check_merge(model, cases, tensors):
    """What peft merges is what it computes beside its base."""
    case = next(case for case in cases if case["kind"] == "forward")
    inputs = {key: tensors[name] for key, name in case["inputs"].items()}
    for key, value in model.merge_and_unload()(**inputs).items():
        if key in case["outputs"] and (value - tensors[case["outputs"][key]]).abs().max() > AGREE:
            sys.exit(f"peft's merge gives other {key}")


def main():
    base, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    given = {key: json.loads(value) for key, value in (argument.split("=", 1) for argument in sys.argv[3:])}
    is_prompt = "num_virtual_tokens" in given
    if "target_modules" not in given and not is_prompt:
        given["target_modules"] = "all-linear"
    with torch.no_grad():
        for seed in range(300):
            model = make_adapted(base, given, seed)
            config = model.get_base_model().config
            if config.pad_token_id is None:
                config.pad_token_id = 0
            is_encoder = not model.get_base_model().can_generate()
            folder.mkdir(parents=True, exist_ok=True)
            model.peft_config["default"].base_model_name_or_path = None
            model.save_pretrained(folder, save_embedding_layers=False)
            computed = BehindVirtual(model) if is_prompt else merged_in_f16(model) if base.suffix == ".gguf" else model
            torch.manual_seed(seed)
            if made := cases_of(computed, config, is_encoder):
                break
        else:
            sys.exit("every seed has an unclear greedy answer")
        cases, tensors = made
        ties = getattr(config, "tie_word_embeddings", False) and {"embed_tokens", "wte", "lm_head"} & set(given.get("target_modules", []))
        if not is_prompt and base.suffix != ".gguf" and not ties:
            check_merge(model, cases, tensors)
    (folder / "README.md").unlink()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "golden.safetensors")
    meta = {"family": config.model_type, "task": "encoder" if is_encoder else "seq2seq" if config.is_encoder_decoder else "causal-lm",
            "model_type": config.model_type, "seed": seed, "torch": torch.__version__, "transformers": transformers.__version__,
            "peft": peft.__version__, "context": getattr(config, "max_position_embeddings", None) or 128, "weights_dtype": "float32", "cases": cases}
    (folder / "golden.json").write_text(json.dumps(meta, indent=1) + "\n")
    print(f"{folder}: seed {seed}")


main()
