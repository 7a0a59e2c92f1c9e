# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sets random keys of generation_config.json and compares the ids that a program generates with those of PyPI's transformers.

sweep_generation.py HEDDLE FOLDER… [--count=N] [--seed=N] [--keep=FOLDER]

As sweep_config.py, of models that generate from texts: N sets (60) of up to four keys for each FOLDER. A set is left out where weights that are a
little off give other ids, since rounding may, too. Keys that a program does not apply count as refused where it says so. A third of the sets stand in
config.json, of a folder without the other file.
"""
import copy
import inspect
import json
import random
import re
import shutil
import sys

import sweep_config as sweep
import torch
import transformers

GENERATION = {"num_beams": [2, 3, 4], "length_penalty": [0.0, -1.0, 2.0, 0.6], "early_stopping": [True, False, "never"], "no_repeat_ngram_size": [1, 2, 3],
              "encoder_no_repeat_ngram_size": [1, 2], "repetition_penalty": [1.3, 0.7], "encoder_repetition_penalty": [1.5], "suppress_tokens": "many",
              "begin_suppress_tokens": "many", "bad_words_ids": "lists", "forced_bos_token_id": "one", "forced_eos_token_id": "one", "eos_token_id": "many",
              "min_length": [4, 8], "max_length": [6, 10, 20], "min_new_tokens": [3, 7], "max_new_tokens": [1, 5, 12], "renormalize_logits": [True],
              "remove_invalid_values": [True], "exponential_decay_length_penalty": [[2, 1.5]], "diversity_penalty": [0.5],
              "guidance_scale": [1.5], "sequence_bias": [[[[5], 3.0]]], "top_k": [4], "do_sample": [False], "temperature": [0.7, 0.0],
              "num_return_sequences": [1, 2], "forced_decoder_ids": [[[1, 9], [2, 11]]], "prompt_lookup_num_tokens": [2], 
              "decoder_start_token_id": "one", "low_memory": [True], "use_cache": [False], "watermarking_config": [{}], "typical_p": [0.5],
              "epsilon_cutoff": [0.1], "min_p": [0.1]}
# Those that no program applies, which few sets have.
NOT_APPLIED = {"diversity_penalty", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "exponential_decay_length_penalty", "forced_decoder_ids",
               "guidance_scale", "sequence_bias", "watermarking_config"}
PROMPT = [5, 17, 40, 8, 77, 23]


def answer(model, generation, stated):
    model.generation_config = copy.deepcopy(generation)
    ids = model.generate(torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.int64), **stated)[0].tolist()
    return ids[1 if model.config.is_encoder_decoder else len(PROMPT):]


def make_model(folder, raw):
    """(model, its ids without any key): of random ones that which answers with most tokens; small ones repeat one where biases, positions or the
    source outweigh a token."""
    best = (None, [])
    for blocks, source, bias in ((3.0, 0.2, 0.0), (3.0, 0.2, 0.3), (1.0, 1.0, 1.0)):
        model = sweep.make_model(folder, raw)
        for name, weight in model.named_parameters():
            if weight.dim() < 2:
                weight *= bias if name.endswith("bias") else 1.0
            elif re.search("encoder_attn|EncDec|pos|wpe", name):
                weight *= source
            elif re.search("fc|mlp|Dense|(v|o|out)_proj", name):
                weight *= blocks
        usual = answer(model, transformers.GenerationConfig(**own_tokens(model)), {"max_new_tokens": 2 * sweep.NEW_TOKENS})
        best = max(best, (model, usual), key=lambda each: len(set(each[1])))
    best[0].save_pretrained(folder)
    return best


def own_tokens(model):
    keys = ("bos_token_id", "decoder_start_token_id", "pad_token_id")
    return {key: getattr(model.config, key) for key in keys if getattr(model.config, key, None) is not None}


def write_generation(folder, raw, generation, in_config):
    """Writes the keys into one of the two files; what transformers makes of them."""
    (folder / "generation_config.json").unlink(missing_ok=True)
    sweep.write_config(folder, raw | generation if in_config else raw)
    if in_config:  # from_pretrained of a model reads the file: defaults of config classes count for no folder
        return transformers.GenerationConfig.from_pretrained(folder, config_file_name="config.json", _from_model_config=True)
    sweep.write_config(folder, generation, "generation_config.json")
    return transformers.GenerationConfig(**generation)


def check(heddle, folder, raw, model, off, own, usual, draw):
    """(keys, verdict, detail) of one random set of keys; `usual`: the answer's tokens without any."""
    token = lambda: draw.choice(usual) if draw.random() < 0.6 else draw.randrange(4, 90)
    draws = {"one": token, "many": lambda: [token() for _ in range(draw.randint(1, 12))], "lists": lambda: [[token() for _ in range(draw.randint(1, 2))] for _ in range(6)]}
    keys = draw.sample(sorted(GENERATION if draw.random() < 0.2 else GENERATION.keys() - NOT_APPLIED), draw.randint(1, 4))
    generation = own | {key: draws[GENERATION[key]]() if isinstance(GENERATION[key], str) else draw.choice(GENERATION[key]) for key in keys}
    in_config = draw.random() < 1 / 3
    said = ("config.json: " if in_config else "") + json.dumps({key: generation[key] for key in keys})
    stated = {} if {"max_length", "max_new_tokens"} & generation.keys() else {"max_new_tokens": sweep.NEW_TOKENS}
    try:
        asked = write_generation(folder, raw, generation, in_config)
        wanted, near = answer(model, asked, stated), answer(off, asked, stated)
    except Exception as error:
        return said, None, f"{type(error).__name__}: {error}"
    if wanted != near:
        return said, None, "a near tie"
    code, told = sweep.run([heddle, "compile", folder, "-o", folder / "program", *[flag for flag in sweep.COMPILED if flag != "--quiet"]])
    if code == 0 and "generates without" in told:
        return said, "refused", told.splitlines()[0]
    if code == 0:
        code, told = sweep.run([folder / "program", "--prompt-ids", ",".join(map(str, PROMPT)), "--print-ids", *(["-n", sweep.NEW_TOKENS] if stated else [])])
    if code != 0:
        return said, *sweep.ended(code, told)
    ids = [int(word) for word in told.replace(",", " ").split()]
    return said, "same" if ids == wanted else "WRONG", f"{ids}" + ("" if ids == wanted else f", expected {wanted}")


def results(options, base, folder):
    """(keys, verdict, detail) of one checkpoint."""
    raw, draw = json.loads((base / "config.json").read_text()), random.Random(options.seed)
    shutil.copytree(base, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
    raw |= {"eos_token_id": None, "forced_eos_token_id": None, "forced_bos_token_id": None}
    kind = getattr(transformers, raw["architectures"][0], None)
    if not kind or not issubclass(kind, transformers.GenerationMixin) or "input_features" in inspect.signature(kind.forward).parameters:
        return
    try:
        model, usual = make_model(folder, raw)
    except Exception as error:
        return (yield "as it is", None, f"{type(error).__name__}: {error}")
    off = copy.deepcopy(model)
    for weight in off.parameters():
        weight *= 1 + 1e-5 * torch.randn_like(weight)
    for _ in range(options.count):
        yield check(options.heddle, folder, raw, model, off, own_tokens(model), usual, draw)


def main():
    parser = sweep.parser_of(__doc__)
    parser.add_argument("--count", type=int, default=60, metavar="N")
    return sweep.sweep(parser, results)


if __name__ == "__main__":
    sys.exit(main())
