# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes goldens of masks that have zeros between ones, of a checkpoint, by PyPI's transformers.

make_masked_golden.py CHECKPOINT FOLDER: writes FOLDER/golden.safetensors, as golden_logits.py reads it: gap.input_ids, gap.attention_mask and
gap.logits, which the model gives for them without position_ids. Not part of the suite, which needs neither torch nor transformers:
python -m pip install torch transformers
"""
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers
from safetensors.torch import save_file

MASK = torch.tensor([[1, 1, 0, 0, 1, 1, 0], [1, 0, 1, 1, 0, 1, 1]])


def main(checkpoint, folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager", dtype=torch.float32).eval()
    torch.manual_seed(0)
    ids = torch.randint(3, model.config.vocab_size, MASK.shape)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=MASK).logits * MASK[..., None]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    save_file({"gap.input_ids": ids, "gap.attention_mask": MASK, "gap.logits": logits}, pathlib.Path(folder) / "golden.safetensors")


main(*sys.argv[1:])
