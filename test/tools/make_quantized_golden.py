# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny quantised checkpoint with its goldens: transformers' logits, in f32, of the numbers that the stored codes stand for.

make_quantized_golden.py METHOD MODEL_TYPE FOLDER [KEY=VALUE…] [-- OPTION=VALUE…]

METHOD is a function of quantized_formats.py, which writes a weight in the method's parts and computes from these, by the method's published
formula, what they stand for; OPTION=VALUE is given to it, KEY=VALUE to the model's config, both JSON. With rounds=true
numbers are rounded to f16, as they are read where no block type holds them. Files are those of make_golden.py. Not part of the suite:
python -m pip install torch transformers bitsandbytes
"""
import json
import pathlib
import sys

import quantized_formats  # before the next, which takes this folder off the path
import make_golden
import torch
import transformers
from safetensors.torch import save_file


def is_quantized(name, weight):
    """Linear layers of the layers; gpt_oss quantises its experts alone."""
    return weight.dim() >= 2 and ".layers." in name and "router" not in name and "mlp.gate." not in name


def quantize(model, method, options, rounds):
    """The tensors of the checkpoint, and its quantization_config; the model gets the numbers that the tensors stand for, as f16 if it `rounds`."""
    tensors, parts = {}, {}
    for name, weight in model.state_dict().items():
        if not (is_quantized(name, weight) and quantized_formats.takes(method, name)):
            tensors[name] = weight.clone()
            continue
        made, numbers = getattr(quantized_formats, method)(name, weight.numpy(), options)
        parts |= {key: torch.from_numpy(value) if not isinstance(value, torch.Tensor) else value for key, value in made.items()}
        weight.copy_(torch.from_numpy(numbers.astype("float16" if rounds else "float32").astype("float32")))
    return tensors | parts, quantized_formats.config(method, options)


def main():
    words = sys.argv[1:]
    given, options = words[3:], {}
    if "--" in given:
        at = given.index("--")
        given, options = given[:at], dict(option.split("=", 1) for option in given[at + 1:])
    options = {key: json.loads(value) for key, value in options.items()}
    rounds = options.pop("rounds", False)
    method, model_type, folder = words[0], words[1], pathlib.Path(words[2])
    keys = {key: json.loads(value) for key, value in (argument.split("=", 1) for argument in given)}
    config = transformers.AutoConfig.for_model(model_type, **(make_golden.SIZES | keys))
    for seed in range(1000):
        with torch.no_grad():
            model = make_golden.make_model(config, seed)
            stored, quantization = quantize(model, method, options, rounds)
            made = make_golden.make_cases(model, config)
        if made:
            break
    else:
        sys.exit("every seed has an unclear greedy answer")
    cases, tensors = made
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    about = json.loads((folder / "config.json").read_text())
    about |= {"architectures": [type(model).__name__], "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(about, indent=1) + "\n")
    save_file({name: value.contiguous() for name, value in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "golden.safetensors")
    golden = {"family": model_type, "task": "causal-lm", "model_type": model_type, "seed": seed, "torch": torch.__version__,
              "transformers": transformers.__version__, "dtype": "float32", "weights_dtype": method, "cases": cases}
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{folder}: seed {seed}")


if __name__ == "__main__":
    main()
