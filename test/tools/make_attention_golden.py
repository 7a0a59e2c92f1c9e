# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes goldens of --attention-map for checkpoints of test/models, by PyPI's transformers with attn_implementation="eager".

make_attention_golden.py MODELS OUT NAME[=TOKENS]…

Writes OUT/NAME.safetensors: input_ids, of an encoder-decoder decoder_input_ids (its start and a greedy answer of six tokens), and what
output_attentions gives, as the program names it. Texts of encoders are padded on the right, and the padding is cut off again. Not part of the suite, which
needs neither torch nor transformers: python -m pip install torch transformers
"""
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers
from safetensors.torch import save_file


def attentions_of(folder, tokens):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, (config.architectures or ["AutoModel"])[0])
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    ids = torch.tensor([[3 + (7 * i + i * i // 3) % (config.vocab_size - 3) for i in range(tokens)]])
    result = {"input_ids": ids.int()}

    def add(prefix, maps):
        for i, each in enumerate(maps):
            result[f"{prefix}.{i}"] = each.float()

    if config.is_encoder_decoder:
        answer = torch.tensor([[model.generation_config.decoder_start_token_id]])
        for _ in range(6):
            best = model(input_ids=ids, decoder_input_ids=answer).logits[:, -1:].argmax(-1)
            answer = torch.cat([answer, best], dim=1)
        result["decoder_input_ids"] = answer.int()
        got = model(input_ids=ids, decoder_input_ids=answer, output_attentions=True)
        add("encoder_attentions", got.encoder_attentions)
        add("decoder_attentions", got.decoder_attentions)
        add("cross_attentions", got.cross_attentions)
    elif hasattr(model, "generate") and model.can_generate():
        add("attentions", model(input_ids=ids, output_attentions=True, use_cache=False).attentions)
    else:
        padded = torch.cat([ids, torch.zeros(1, 5, dtype=ids.dtype)], dim=1)
        got = model(input_ids=padded, attention_mask=(torch.arange(tokens + 5) < tokens)[None].long(), output_attentions=True)
        add("attentions", [each[:, :, :tokens, :tokens] for each in got.attentions])
    return {name: tensor.contiguous() for name, tensor in result.items()}


def main():
    models, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for argument in sys.argv[3:]:
        name, _, tokens = argument.partition("=")
        with torch.no_grad():
            save_file(attentions_of(models / name, int(tokens or 18)), out / f"{name}.safetensors")


main()
