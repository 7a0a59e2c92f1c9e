# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny encoder-decoder of a family with its goldens, by the family's implementation in PyPI's transformers.

make_seq2seq_golden.py MODEL_TYPE FOLDER [KEY=VALUE…]

KEY=VALUE sets what the config says beside the sizes below; VALUE is JSON. With tie_word_embeddings=false the head gets weights of its own,
also where the config class knows no such models. Writes config.json, generation_config.json, model.safetensors,
golden.json and golden.safetensors, as check_golden.py reads them: forward passes, alone and as batches padded on the right and on the left,
greedy answers and beam searches, with and without an end. A seed of which some greedy token is nearly a tie is passed over. Not part of the suite, which needs
neither torch nor transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers
from safetensors.torch import save_file

SIZES = dict(vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
             encoder_ffn_dim=40, decoder_ffn_dim=48, max_position_embeddings=64, bos_token_id=0, pad_token_id=1, eos_token_id=2,
             decoder_start_token_id=2, scale_embedding=True, forced_eos_token_id=None)
# Of T5 and its kin, whose config classes have other names.
T5_SIZES = dict(vocab_size=96, d_model=32, d_kv=12, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=2, pad_token_id=0, eos_token_id=1,
                decoder_start_token_id=0, relative_attention_num_buckets=10, relative_attention_max_distance=12)
SIZES_OF = {"mt5": T5_SIZES, "t5": T5_SIZES, "umt5": T5_SIZES,
            "switch_transformers": T5_SIZES | dict(num_experts=3, encoder_sparse_step=2, decoder_sparse_step=1)}
GEMMA_SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                   max_position_embeddings=64, query_pre_attn_scalar=16, sliding_window=64)
SIZES_OF["t5gemma"] = dict(vocab_size=96, encoder=GEMMA_SIZES, decoder=GEMMA_SIZES | dict(intermediate_size=40), bos_token_id=2, pad_token_id=0, eos_token_id=1,
                           decoder_start_token_id=2)
# With use_cache the class masks nothing of an answer that is given whole.
SIZES_OF["fsmt"] = {key: value for key, value in SIZES.items() if key != "vocab_size"} | dict(src_vocab_size=96, tgt_vocab_size=96, use_cache=False)
NEW_TOKENS, LEAST_MARGIN, LOGITS_STD = 12, 2e-3, 2.0
SEARCHES = {"beam3": dict(num_beams=3, length_penalty=1.0, early_stopping=False), "beam4_stop": dict(num_beams=4, length_penalty=2.0, early_stopping=True)}


def make_model(config, seed, has_head):
    """The family's model with random weights; norms near 1, logits of a standard deviation of LOGITS_STD."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager").float().eval()
    if has_head:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
        config.tie_word_embeddings = False
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not weight.requires_grad or (config.model_type == "fsmt" and "embed_positions" in name): # a table of positions
                continue
            if weight.dim() == 1:
                weight.normal_(0.0 if name.endswith("bias") else 1.0, 0.2)
            else:
                weight.normal_(0.0, 1.5 / weight.shape[-1] ** 0.5)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0.0, 0.5)
        ids = torch.randint(3, config.vocab_size, (1, 16))
        model.get_output_embeddings().weight *= LOGITS_STD / model(input_ids=ids, decoder_input_ids=ids).logits.std()
    return model


def forward(model, tensors, name, **inputs):
    out = model(**inputs)
    tensors |= {f"{name}.{key}": value for key, value in inputs.items()}
    tensors |= {f"{name}.logits": out.logits, f"{name}.encoder_last_hidden_state": out.encoder_last_hidden_state}
    case = {"name": name, "kind": "forward", "inputs": {key: f"{name}.{key}" for key in inputs},
            "outputs": {key: f"{name}.{key}" for key in ("logits", "encoder_last_hidden_state")}}
    return case | ({"encoder_mask": f"{name}.attention_mask"} if "attention_mask" in inputs else {})


def greedy(model, tensors, name, **inputs):
    """The same for greedy answers; None where a token is nearly a tie."""
    start = model.config.decoder_start_token_id
    decoded, picked = torch.full((len(next(iter(inputs.values()))), 1), start), []
    for _ in range(NEW_TOKENS):
        logits = model(**inputs, decoder_input_ids=decoded).logits[:, -1]
        best = logits.topk(2).values
        if (best[:, 0] - best[:, 1]).min() < LEAST_MARGIN:
            return None
        picked.append(logits)
        decoded = torch.cat([decoded, logits.argmax(-1, keepdim=True)], dim=1)
    tensors |= {f"{name}.greedy_ids": decoded[:, 1:], f"{name}.greedy_logits": torch.stack(picked, 1)}
    return {"name": f"{name}.greedy", "kind": "greedy", "inputs": {key: f"{name}.{key}" for key in inputs}, "max_new_tokens": NEW_TOKENS,
            "decoder_start_token_id": start, "outputs": {"ids": f"{name}.greedy_ids", "logits": f"{name}.greedy_logits"}}


def search(model, tensors, name, label, end, asked, **inputs):
    asked = asked | dict(do_sample=False, max_new_tokens=NEW_TOKENS, eos_token_id=end)
    tensors[f"{name}.{label}_ids"] = model.generate(**inputs, **asked, use_cache=True, num_return_sequences=1)
    return {"name": f"{name}.{label}", "kind": "beam", "inputs": {key: f"{name}.{key}" for key in inputs}, "generate": asked,
            "outputs": {"ids": f"{name}.{label}_ids"}}


def make_cases(model, config):
    """(cases, tensors); None where a greedy answer is unclear."""
    cases, tensors = [], {}
    draw = lambda rows, length: torch.randint(3, config.vocab_size, (rows, length))
    start = lambda rows, length: torch.cat([torch.full((rows, 1), config.decoder_start_token_id), draw(rows, length - 1)], dim=1)
    mask = torch.ones(2, 13, dtype=torch.int64)
    mask[1, 8:] = 0
    batch = draw(2, 13)
    batch[1, 8:] = config.pad_token_id
    for name, inputs, length in (("e0", dict(input_ids=draw(1, 11)), 7), ("batch", dict(input_ids=batch, attention_mask=mask), 5)):
        cases.append(forward(model, tensors, name, **inputs, decoder_input_ids=start(len(inputs["input_ids"]), length)))
        if not (answers := greedy(model, tensors, name, **inputs)):
            return None
        cases.append(answers)
        end = int(tensors[f"{name}.greedy_ids"][0, 3])
        for label, asked in SEARCHES.items():
            cases.append(search(model, tensors, name, label, end if "stop" in label else None, asked, **inputs))
    if not hasattr(config, "expert_capacity"):  # experts count padding on the left
        ids, decoded = torch.cat([batch[:, 8:], batch[:, :8]], dim=1), start(2, 5)
        case = forward(model, tensors, "left", input_ids=ids, attention_mask=torch.cat([mask[:, 8:], mask[:, :8]], dim=1), decoder_input_ids=decoded)
        alone = model(input_ids=ids[1:, 5:], decoder_input_ids=decoded[1:]).logits
        cases.append(case | {"moves_padded": not torch.allclose(alone, tensors["left.logits"][1:], atol=1e-4)})
    return cases, tensors


def write_goldens(folder, model_type, make, make_cases):
    """Saves the first model make(seed) whose cases make_cases(model) are clear to `folder`, with its goldens; returns it."""
    with torch.no_grad():
        for seed in range(100):
            model = make(seed)
            if made := make_cases(model):
                break
        else:
            sys.exit("no seed gives clear answers")
    cases, tensors = made
    model.save_pretrained(folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "golden.safetensors")
    meta = {"family": model_type, "task": "seq2seq", "model_type": model_type, "seed": seed, "torch": torch.__version__,
            "transformers": transformers.__version__, "weights_dtype": "float32", "cases": cases}
    (folder / "golden.json").write_text(json.dumps(meta, indent=1) + "\n")
    return model


def main():
    model_type, folder, *settings = sys.argv[1:]
    values = SIZES_OF.get(model_type, SIZES) | {key: json.loads(value) for key, value in (setting.split("=", 1) for setting in settings)}
    config = transformers.AutoConfig.for_model(model_type, **values)
    keeps_head = values.get("tie_word_embeddings") is False
    write_goldens(pathlib.Path(folder), model_type, lambda seed: make_model(config, seed, keeps_head), lambda model: make_cases(model, config))


if __name__ == "__main__":
    main()
