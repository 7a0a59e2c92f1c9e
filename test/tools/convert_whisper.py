# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a Hugging Face folder of a Whisper model in CTranslate2's form.

convert_whisper.py FOLDER OUT

FOLDER has model.bin of the specification "WhisperSpec" with f16 numbers, config.json and tokenizer.json. Its file is a header (u32 version, name,
u32 revision, u32 count) and `count` variables: name, u8 rank, u32 sizes, u8 type, u32 bytes, numbers; a name is u16 length and text that ends in a
zero. Queries, keys and values of self-attention are one matrix there, keys and values of cross-attention another; both are cut by rows, whose
numbers stay as they are. Keys have no bias in transformers: theirs is zeros, and is checked to be. Only English models, which know no languages.
"""
import json
import math
import pathlib
import struct
import sys

F16 = 4  # CTranslate2's number of the type
PLAIN = {"layer_norm/gamma": "layer_norm.weight", "layer_norm/beta": "layer_norm.bias", "embeddings/weight": "embed_tokens.weight",
         "position_encodings/encodings": "embed_positions.weight", "conv1/weight": "conv1.weight", "conv1/bias": "conv1.bias",
         "conv2/weight": "conv2.weight", "conv2/bias": "conv2.bias"}
NORMS = {"self_attention": "self_attn_layer_norm", "attention": "encoder_attn_layer_norm", "ffn": "final_layer_norm"}
ATTENTION = {"self_attention": "self_attn", "attention": "encoder_attn"}
# What rows of a linear layer are, by its place: linear_0 of cross-attention makes queries, linear_1 keys and values.
PARTS = {("self_attention", "linear_0"): ["q_proj", "k_proj", "v_proj"], ("self_attention", "linear_1"): ["out_proj"],
         ("attention", "linear_0"): ["q_proj"], ("attention", "linear_1"): ["k_proj", "v_proj"], ("attention", "linear_2"): ["out_proj"],
         ("ffn", "linear_0"): ["fc1"], ("ffn", "linear_1"): ["fc2"]}


def read_variables(path):
    """name → (type, shape, bytes)."""
    data, at = path.read_bytes(), 0

    def take(form):
        nonlocal at
        value, = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        length = take("H")
        at += length
        return data[at - length:at - 1].decode()

    take("I")
    if (spec := text()) != "WhisperSpec":
        raise SystemExit(f"{path}: {spec}, expected WhisperSpec")
    take("I")
    variables = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        kind, size = take("B"), take("I")
        variables[name] = kind, shape, data[at:at + size]
        at += size
    return variables


def tensors_of(name, shape, data):
    """The tensors of transformers that a variable becomes: (name, shape, bytes) each."""
    stack, _, rest = name.partition("/")
    if rest in PLAIN:
        return [(f"model.{stack}.{PLAIN[rest]}", shape, data)]
    layer, block, place, kind = rest.split("/")
    prefix = f"model.{stack}.layers.{layer.removeprefix('layer_')}."
    if place == "layer_norm":
        return [(f"{prefix}{NORMS[block]}.{'weight' if kind == 'gamma' else 'bias'}", shape, data)]
    parts, made = PARTS[block, place], []
    rows, size = shape[0] // len(parts), len(data) // len(parts)
    for i, part in enumerate(parts):
        numbers = data[i * size:(i + 1) * size]
        if (part, kind) == ("k_proj", "bias"):
            if any(numbers):
                raise SystemExit(f"{name}: a bias of keys, which transformers has not")
            continue
        made.append((f"{prefix}{ATTENTION[block] + '.' if block in ATTENTION else ''}{part}.{kind}", [rows, *shape[1:]], numbers))
    return made


def write_safetensors(path, tensors):
    header, body = {}, bytearray()
    for name, shape, data in tensors:
        if len(data) != 2 * math.prod(shape):
            raise SystemExit(f"{name}: {len(data)} bytes for {shape}")
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(body))


def main():
    folder, out = map(pathlib.Path, sys.argv[1:])
    variables = read_variables(folder / "model.bin")
    shapes = {name: shape for name, (_, shape, _) in variables.items()}
    heads = {stack: struct.unpack("<h", variables[f"{stack}/num_heads"][2])[0] for stack in ("encoder", "decoder")}
    layers = {stack: sum(name.startswith(f"{stack}/") and name.endswith("/ffn/linear_0/weight") for name in shapes) for stack in heads}
    asked = json.loads((folder / "config.json").read_text())
    tokens = {token["content"]: token["id"] for token in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}
    vocabulary, width = shapes["decoder/embeddings/weight"]
    if vocabulary != 51864:
        raise SystemExit(f"{folder}: a vocabulary of {vocabulary}, expected 51864 of an English model")
    out.mkdir(parents=True)
    ends = dict(bos_token_id=tokens["<|endoftext|>"], eos_token_id=tokens["<|endoftext|>"], pad_token_id=tokens["<|endoftext|>"],
                decoder_start_token_id=tokens["<|startoftranscript|>"])
    mels = shapes["encoder/conv1/weight"][1]
    config = dict(model_type="whisper", architectures=["WhisperForConditionalGeneration"], activation_function="gelu", d_model=width,
                  encoder_layers=layers["encoder"], encoder_attention_heads=heads["encoder"], encoder_ffn_dim=shapes["encoder/layer_0/ffn/linear_0/weight"][0],
                  decoder_layers=layers["decoder"], decoder_attention_heads=heads["decoder"], decoder_ffn_dim=shapes["decoder/layer_0/ffn/linear_0/weight"][0],
                  max_source_positions=shapes["encoder/position_encodings/encodings"][0],
                  max_target_positions=shapes["decoder/position_encodings/encodings"][0], num_mel_bins=mels, vocab_size=vocabulary,
                  scale_embedding=False, tie_word_embeddings=True, torch_dtype="float16", **ends)
    generation = dict(is_multilingual=False, no_timestamps_token_id=tokens["<|notimestamps|>"], max_initial_timestamp_index=50,
                      max_length=config["max_target_positions"], suppress_tokens=asked["suppress_ids"], begin_suppress_tokens=asked["suppress_ids_begin"],
                      return_timestamps=False, **ends)
    sound = dict(feature_extractor_type="WhisperFeatureExtractor", feature_size=mels, sampling_rate=16000, hop_length=160, n_fft=400, chunk_length=30,
                 n_samples=480000, nb_max_frames=3000, padding_side="right", padding_value=0.0, return_attention_mask=False)
    for name, content in (("config", config), ("generation_config", generation), ("preprocessor_config", sound)):
        (out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    (out / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    write_safetensors(out / "model.safetensors", [tensor for name, (kind, shape, data) in variables.items() if kind == F16
                                                  for tensor in tensors_of(name, shape, data)])


if __name__ == "__main__":
    main()
