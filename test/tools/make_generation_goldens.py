# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what PyPI's transformers generates with the models of this suite under keys of generation_config.json, as check_generation_keys.py reads it.

make_generation_goldens.py FOLDER_OF_MODELS FILE

Of each key a case is taken whose answer is another without it, and the same of weights that are a little off, so that rounding changes no token.
Not part of the suite, which needs neither torch nor transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers

PROMPT, NEW_TOKENS = [5, 17, 40, 8, 77, 23], 9


def cases(first, second, third):
    """Lists of (keys, the one of them that must count); the tokens are of the answer without any."""
    yield [({"bad_words_ids": [[first], [second, third]]}, "bad_words_ids")]
    yield [({"bad_words_ids": [[first, second]]}, "bad_words_ids")]
    # What ends an answer is no bad word.
    yield [({"eos_token_id": second, "min_length": least, "bad_words_ids": [[second]]}, "min_length") for least in (6, 10)]
    yield [({"eos_token_id": [second, third], "min_new_tokens": 5}, "min_new_tokens")]
    yield [({"max_length": 9, "forced_eos_token_id": 9}, "max_length")]
    yield [({"max_length": 12, "max_new_tokens": 3}, "max_new_tokens")]
    searches = [{"num_beams": beams, "eos_token_id": eos} for beams in (2, 3, 4) for eos in (second, third, [second, third], first)]
    for more, key in (({"bad_words_ids": [[first], [third, 8]], "suppress_tokens": [second], "renormalize_logits": True}, "renormalize_logits"),
                      ({"length_penalty": 2.0, "early_stopping": "never"}, "early_stopping"),
                      ({"early_stopping": True, "no_repeat_ngram_size": 2, "min_length": 11}, "min_length"),
                      ({"forced_eos_token_id": 9, "max_length": 9}, "max_length")):
        yield [(search | more, key) for search in searches]


def answers(model, generation):
    model.generation_config = transformers.GenerationConfig(**generation)
    stated = {} if "max_length" in generation or "max_new_tokens" in generation else {"max_new_tokens": NEW_TOKENS}
    ids = model.generate(torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.int64), do_sample=False, **stated)[0].tolist()
    return ids[1 if model.config.is_encoder_decoder else len(PROMPT):]


def first_that_counts(name, model, off, own, candidates):
    for case, key in candidates:
        generation = {name: value for name, value in (own | case).items() if value is not None}
        ids = answers(model, generation)
        without = answers(model, {other: value for other, value in generation.items() if other != key})
        if ids != without and ids == answers(off, generation):
            return {"model": name, "generation": generation, "ids": ids}
    sys.exit(f"{name}: no case shows {candidates[0][1]}")


def main():
    transformers.logging.set_verbosity_error()
    found = []
    for name in ("marian", "gpt2"):
        folder = pathlib.Path(sys.argv[1]) / name
        kind = transformers.AutoModelForSeq2SeqLM if name == "marian" else transformers.AutoModelForCausalLM
        model, off = (kind.from_pretrained(folder, dtype=torch.float32).eval() for _ in range(2))
        with torch.no_grad():
            for weight in off.parameters():
                weight *= 1 + 1e-5 * torch.randn_like(weight)
        stated = json.loads((folder / "generation_config.json").read_text())
        own = {key: stated[key] for key in ("bos_token_id", "decoder_start_token_id", "pad_token_id") if key in stated}
        tokens = list(dict.fromkeys(answers(model, own)))
        wanted = list(cases(*tokens[1:4]))
        for case in wanted if name == "marian" else wanted[2:6]:  # of a decoder lengths, which count its prompt
            found.append(first_that_counts(name, model, off, own, case))
    meta = {"transformers": transformers.__version__, "torch": torch.__version__, "prompt": PROMPT, "new_tokens": NEW_TOKENS}
    lines = ",\n  ".join(map(json.dumps, found))
    pathlib.Path(sys.argv[2]).write_text(json.dumps(meta)[:-1] + f', "cases": [\n  {lines}]}}\n')


main()
