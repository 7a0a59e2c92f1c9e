# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a bottleneck adapter of a tiny model and its goldens, by AdapterHub's adapters over the model's class in transformers.

make_bottleneck.py BASE FOLDER CONFIG [KEY=VALUE…]

BASE is a folder of test/models. CONFIG names one of the library's (seq_bn, double_seq_bn, par_bn, …), of which KEY=VALUE changes keys; VALUE is JSON.
Writes adapter_config.json, adapter.safetensors (pytorch_adapter.bin where the library has two names for a norm's numbers, which safetensors does not
take), golden.json and golden.safetensors, as check_golden.py --model=BASE reads them. All that is trained is random. Not part of the suite, which needs none of these:
python -m pip install torch transformers adapters
"""
import json
import pathlib
import sys

TOOLS = sys.path[0]
import make_golden  # removes this folder from sys.path, where safetensors.py is not PyPI's

sys.path.insert(0, TOOLS)
import make_encoder_golden

sys.path.insert(0, TOOLS)
import make_seq2seq_golden

import adapters
import torch
import transformers
from safetensors.torch import save_file

NAME = "tiny"


def make_adapted(base, config, seed):
    """The base with a random adapter that moves its results."""
    torch.manual_seed(seed)
    name = json.loads((base / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(base, attn_implementation="eager", dtype=torch.float32)
    adapters.init(model)
    model.add_adapter(NAME, config=config)
    model.set_active_adapters(NAME)
    for key, weight in model.named_parameters():
        if f".{NAME}." not in key:
            continue
        if weight.dim() == 1:
            is_factor = key.endswith("scaling") or ("norm" in key and key.endswith("weight"))
            weight.normal_(1.0 if is_factor else 0.0, 0.2)
        else:
            weight.normal_(0.0, 1.0 / weight.shape[-1] ** 0.5)
    return model.eval()


def save(model, folder, config):
    folder.mkdir(parents=True, exist_ok=True)
    model.save_adapter(folder, NAME, with_head=False, use_safetensors=not config["ln_before"])
    path = folder / "adapter_config.json"
    said = json.loads(path.read_text()) | {"model_name": None}  # where the base lay
    path.write_text(json.dumps(said, indent=2) + "\n")


def main():
    base, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    given = {key: json.loads(value) for key, value in (argument.split("=", 1) for argument in sys.argv[4:])}
    adapter = adapters.AdapterConfig.load(sys.argv[3], **given)
    with torch.no_grad():
        for seed in range(300):
            model = make_adapted(base, adapter, seed)
            config = model.config
            if getattr(config, "pad_token_id", 0) is None:
                config.pad_token_id = 0
            is_encoder = not model.can_generate()
            torch.manual_seed(seed)
            tensors = {}
            own = make_encoder_golden.image_cases if model.main_input_name == "pixel_values" else make_encoder_golden.text_cases
            is_seq2seq = getattr(config, "is_encoder_decoder", False)
            make_cases = make_seq2seq_golden.make_cases if is_seq2seq else make_golden.make_cases
            made = (list(own(model, config, tensors)), tensors) if is_encoder else make_cases(model, config)
            if made:
                break
        else:
            sys.exit("every seed has an unclear greedy answer")
        cases, tensors = made
        save(model, folder, adapter)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "golden.safetensors")
    meta = {"family": config.model_type, "task": "encoder" if is_encoder else "seq2seq" if is_seq2seq else "causal-lm",
            "model_type": config.model_type, "seed": seed, "torch": torch.__version__, "transformers": transformers.__version__,
            "adapters": adapters.__version__, "context": getattr(config, "max_position_embeddings", None) or 128, "weights_dtype": "float32", "cases": cases}
    if hasattr(getattr(model.base_model, "embeddings", None), "padding_idx"):  # positions begin behind that of padding
        meta["position_offset"] = config.pad_token_id + 1
    (folder / "golden.json").write_text(json.dumps(meta, indent=1) + "\n")
    print(f"{folder}: seed {seed}")


main()
