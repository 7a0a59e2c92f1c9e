# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a tiny Hugging Face checkpoint as a GGUF file, as llama.cpp's convert_hf_to_gguf.py does.

make_gguf.py FOLDER OUT.gguf [tokens | texts]

With `tokens`, with the folder's tokenizer. With `texts`, of a folder of sentence-transformers: with its tokenizer, how it pools and its dense layers.
Names are those of test/unit/data/gguf-names.json, and those of GEMMA4_LAYER. gguf_families.py says what the converter does to a family's numbers and which keys it writes;
experts it stacks. What llama.cpp (llama-cpp-python 0.3.36) computes from these files was once found to be what the goldens say, within its f16 tables.
"""
import array
import json
import math
import pathlib
import re
import struct
import sys

import safetensors
from gguf_families import DISTILBERT_NAMES, FAMILIES, GEMMA4, Config, common_keys, divisors, state_parts

NAMES = pathlib.Path(__file__).parent.parent / "unit/data/gguf-names.json"
U32, I32, F32, BOOL, STRING, F32_TENSOR = 4, 5, 6, 7, 8, 0


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, value):
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", U32, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32, value)
    if isinstance(value, list) and (not value or isinstance(value[0], str)):  # merges may be none
        return text(key) + struct.pack("<IIQ", 9, STRING, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        kind, code = {bool: (BOOL, "?"), float: (F32, "f"), int: (I32, "i")}[type(value[0])]
        return text(key) + struct.pack(f"<IIQ{len(value)}{code}", 9, kind, len(value), *value)
    return text(key) + struct.pack("<I", STRING) + text(value)


def write(path, keys, tensors, alignment=32):
    """A tensor is (shape, numbers), or (shape, bytes, their type)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(pair(*entry) for entry in keys.items())
    body = bytearray()
    for name, (shape, values, *stored) in tensors.items():
        kind = stored[0] if stored else F32_TENSOR
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(body))
        body += values if stored else array.array("f", values).tobytes()
        body += bytes(-len(body) % alignment)
    head += bytes(-len(head) % alignment)
    path.write_bytes(head + body)


def gguf_name(names, name):
    """Of a tensor of any layer and expert: the list has those of the first ones. Norms of heads that are apart become one, as experts do."""
    for own, usual in DISTILBERT_NAMES.items():
        name = name.replace(own, usual)
    name = re.sub(r"\.experts\.\d+\.", ".experts.0.", name)
    name = re.sub(r"\.norms\.\d+\.", ".", name)
    name = re.sub(r"\.block_sparse_moe\.(gate|up|down)_proj\.", r".mlp.\1_proj.", name)  # of a dense block, as transformers writes Kimi Linear
    name = re.sub(r"_projections\.\d+\.", "_projections.0.", name)
    for prefix in ("bert.", "model."):  # of a checkpoint without a head
        name = prefix + name if prefix + name in names else name
    if name == "lm_head.weight":
        return "output.weight"
    layer = re.search(r"\.(?:layers|h|block)\.(\d+)\.", name)
    if name in names or not layer:
        return names[name]
    known = next(i for i in "012" if name[:layer.start(1)] + i + name[layer.end(1):] in names)
    return names[name[:layer.start(1)] + known + name[layer.end(1):]].replace(f"blk.{known}.", f"blk.{layer.group(1)}.")


def halves(name, shape, values, has_experts):
    """Granite's matrices of experts, ([experts,] gate then up, in) and ([experts,] out, in), as those of gate, up and down."""
    block = "block_sparse_moe.experts.0" if "shared_mlp" not in name else "block_sparse_moe.shared_experts" if has_experts else "mlp"
    named = lambda part: name[:name.index(".", len("model.layers."))] + f".{block}.{part}.weight"
    if "output" in name:
        return [(named("down_proj"), shape, values)]
    *experts, rows, columns = shape
    half = rows // 2 * columns
    cut = lambda i: array.array("f", (value for expert in range(math.prod(experts)) for value in values[(2 * expert + i) * half:][:half]))
    return [(named(part), [*experts, rows // 2, columns], cut(i)) for i, part in enumerate(("gate_proj", "up_proj"))]


def apart(names, name, shape, values, has_experts=True):
    """A stack of experts (experts, in, out), gate and up side by side, as matrices (out, in) of each; or the tensor itself, which may be a stack with a name."""
    if name.endswith("put_linear.weight"):
        return halves(name, shape, values, has_experts)
    block, dot, role = name.rpartition(".experts.")
    if not dot or role not in ("gate_up_proj", "down_proj") or re.sub(r"\.\d+\.", ".0.", name) in names:
        return [(name, shape, values)]
    experts, rows, columns = shape
    roles = ["gate_proj", "up_proj"] if role == "gate_up_proj" else [role]
    width = columns // len(roles)
    return [(f"{block}.experts.{expert}.{part}.weight", [width, rows],
             array.array("f", (values[(expert * rows + row) * columns + i * width + column] for column in range(width) for row in range(rows))))
            for expert in range(experts) for i, part in enumerate(roles)]


def stack(tensors):
    """Experts' matrices of one name, (out, in) each, as (experts, out, in)."""
    stacked = {}
    for name, (shape, values) in tensors:
        if name in stacked:
            first, before = stacked[name]
            stacked[name] = ([(first[0] if len(first) > len(shape) else 1) + 1, *shape], before + array.array("f", values))
        else:
            stacked[name] = (shape, array.array("f", values))
    return stacked


def phantom(piece):
    """A piece of WordPiece as the converter has it: the start of a word is marked, not what continues one."""
    if piece.startswith("[") and piece.endswith("]"):
        return piece
    return piece[2:] if piece.startswith("##") else "\u2581" + piece


def surrounds(processor):
    """Whether a text gets a first token and a last one."""
    if processor["type"] == "RobertaProcessing":
        return True, True
    ends = processor["single"][0], processor["single"][-1]
    return tuple("SpecialToken" in end for end in ends)


# Gemma 4's marks around what a model thinks and calls, which the converter has shown.
SHOWN = {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>'}


def tokenizer_keys(folder):
    said = json.loads((folder / "tokenizer.json").read_text())
    model, config = said["model"], json.loads((folder / "tokenizer_config.json").read_text())
    special = {token["content"]: token["id"] for token in said["added_tokens"] if token["special"]}
    scores = {}
    if model["type"] == "Unigram":
        scores = {number: score for number, (_, score) in enumerate(model["vocab"])}
        model["vocab"] = {piece: number for number, (piece, _) in enumerate(model["vocab"])}
    spelled = {number: piece for piece, number in (model["vocab"] | special).items()}
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    pieces = [spelled.get(number, f"[PAD{number}]") for number in range(rows)]
    keys = {"token_type": [3 if piece in special else 1 if number in spelled else 5 for number, piece in enumerate(pieces)]}
    for name, key in dict(bos="bos", eos="eos", unk="unknown", sep="seperator", pad="padding", cls="cls", mask="mask").items():
        if config.get(name + "_token") in special:
            keys[key + "_token_id"] = special[config[name + "_token"]]
    if model["type"] == "WordPiece":
        # Without the first llama.cpp takes 101, which a tiny vocabulary has not.
        return keys | {"bos_token_id": keys["cls_token_id"], "model": "bert", "tokens": [*map(phantom, pieces)], "token_type_count": 2}
    merges = [" ".join(merge) for merge in model.get("merges", [])]
    if model.get("byte_fallback"):  # Gemma 4's: bytes are pieces, and some marks that are not special are always shown
        keys["token_type"] = [6 if re.fullmatch("<0x[0-9A-F]{2}>", piece) else 4 if piece in SHOWN else kind
                              for piece, kind in zip(pieces, keys["token_type"])]
        return keys | {"model": "gemma4", "tokens": pieces, "scores": [-1000.0] * rows, "merges": merges, "add_space_prefix": False, "add_bos_token": True}
    first, last = surrounds(said["post_processor"])
    keys |= {"tokens": pieces, "add_bos_token": first, "add_eos_token": last}
    if model["type"] == "Unigram":
        keys["token_type"][model["unk_id"]] = 2
        return keys | {"model": "t5", "pre": "default", "scores": [float(scores[number]) for number in range(rows)], "add_space_prefix": True,
                       "remove_extra_whitespaces": True, "token_type_count": 1}
    return keys | {"model": "gpt2", "pre": "gpt-2", "merges": merges}


def embedding_parts(folder):
    """Of the folder's modules: the number of how it pools, and its dense layers, which are products alone."""
    pooling = json.loads((folder / "1_Pooling/config.json").read_text())
    mode = pooling.get("pooling_mode") or next(name for name, chosen in pooling.items() if name.startswith("pooling_mode") and chosen)
    dense = {}
    for path in sorted(folder.glob("[23]_Dense")):
        _, shape, values = safetensors.load(path / "model.safetensors")["linear.weight"]
        dense[f"dense_{path.name[0]}.weight"] = (shape, values)
    return next(number for number, part in enumerate(("mean", "cls", "last"), 1) if part in mode), dense


def kin_names(names, entry):
    """Those of all models under the architecture's name."""
    kin = [other["names"] for other in names.values() if other["architecture"] == entry["architecture"]]
    return entry | {"names": {name: gguf for names in kin for name, gguf in names.items()} | entry["names"]}


# Of an encoder's classes.
HEADS = ("decoder.", "head.", "lm_head.")


def convert(folder, texts=""):
    """Keys and tensors of a folder's file; with `tokens` or `texts` also what is said of tokens, with `texts` of pooling."""
    folder = pathlib.Path(folder)
    config = Config(json.loads((folder / "config.json").read_text()))
    family = config["model_type"]
    names = json.loads(NAMES.read_text()) | {"gemma4_text": GEMMA4, "gemma4_text_moe": GEMMA4}
    kin = {"distilbert": "bert", "roberta": "bert", "xlm-roberta": "bert", "falcon_mamba": "mamba", "umt5": "t5"}.get(family, family)
    names["qwen3_vl_moe"] = {"architecture": "qwen3vlmoe", "names": names["qwen3"]["names"] | names["qwen3_moe"]["names"]}
    entry = names.get(folder.name) or kin_names(names, names[kin])  # a family has other tensors in some of its models
    architecture = "gemma-embedding" if config.get("use_bidirectional_attention") else entry["architecture"]
    extra, changes = FAMILIES[family](config)
    if config.get("is_causal") is False:
        extra["attention.causal"] = False
    keys = {"general.architecture": architecture, "tokenizer.ggml.model": "no_vocab"}
    keys |= {f"{architecture}.{key}": value for key, value in {**common_keys(config), **extra}.items() if value is not None}
    tensors = []
    stored = safetensors.load(folder / "model.safetensors").items()
    learned = {}  # what activations have learned: a number of each layer, under keys without the architecture's name
    for name, shape, values in (part for name, (_, shape, values) in stored for part in apart(entry["names"], name, shape, values, bool(config.get("num_local_experts", 1)))):
        if "pooler." in name or (extra.get("attention.causal") is False and name.startswith(HEADS)):
            continue  # as the converter does
        if ".act_fn." in name:
            learned.setdefault("xielu." + name.rpartition(".")[2], []).append(values[0])
            continue
        change = next((changes[end] for end in changes if name.endswith(end)), lambda shape, values: values)
        values = change(shape, values)
        shape = [len(values) // math.prod(shape[1:]), *shape[1:]]
        if family != "xlm-roberta":  # converters leave out dimensions of 1, or do not
            shape = [dim for dim in shape if dim > 1] or [1]
        tensors += state_parts(config, gguf_name(entry["names"], name), shape, values)
    keys |= learned
    tensors = stack(tensors) | divisors(config)
    if texts == "texts":
        keys[f"{architecture}.pooling_type"], dense = embedding_parts(folder)
        for name, (shape, _) in dense.items():
            keys |= {f"{architecture}.{name.split('.')[0]}_feat_{end}": size for end, size in zip(("out", "in"), shape)}
        tensors |= dense
    if texts:
        keys |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer_keys(folder).items()}
    return keys, tensors


def main(folder, out, texts=""):
    write(pathlib.Path(out), *convert(folder, texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
