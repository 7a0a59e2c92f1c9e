# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cuts a small vocabulary out of that of a GGUF file, and writes what llama.cpp makes of texts with it.

cut_gguf_tokenizer.py MODEL.gguf CASES.json

Kept are the pieces of SEEN, those that they are joined of, bytes and special tokens; UNSEEN is put together of them. CASES.json is for
check_tokenizer.py. Decoded texts are written from the pieces, as their spelling says. Not part of the suite, which needs none of this:
python -m pip install gguf llama-cpp-python
"""
import ctypes
import json
import pathlib
import sys
import tempfile

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's
import gguf
import llama_cpp

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_gguf

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
SEEN = ["Hello, world!", "I'm sure we'LL see it", "the  three   spaces", "a\n\n\nb\n", "\t\tif x >= 10:", "123 4567",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "\u65e5\u672c\u8a9e", "na\u00efve caf\u00e9"]
UNSEEN = ["", " ", "\n", "\n" * 40, " \n \n\n  \n", "Hello\u2581world", "e\u0301\u0302x", "x\u0301 y", "\u2014\u2026!\u0939\u093f\u0301", "the sea\U0001f999\n", "\u0000\u001b",
          "\u00a0\u2003\u3000\u200d", "\r\nthe\r", "\u00bd \u2167 x\u00b2", "<|im_start|>see<|channel>the<bos><0x41>"]


def pieces_of(token, ranks):
    """What a piece is joined of, step by step: the lowest rank first, and the leftmost of equal ones."""
    parts, found = list(token), set(token)
    while len(parts) > 1:
        rank, place = min((ranks.get(pair, len(ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
        if rank == len(ranks):
            break
        parts[place:place + 2] = [parts[place] + parts[place + 1]]
        found.add(parts[place])
    return found


class Llama:
    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def ids(self, text):
        data, ids = text.encode(), (llama_cpp.llama_token * 4096)()
        return ids[:llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), True, True)]


def byte_alphabet():
    """The character of each byte in byte-level vocabularies."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    return [chr(byte) if byte in printable else chr(0x100 + sum(other not in printable for other in range(byte))) for byte in range(256)]


def bytes_of(token, kind, marked):
    if kind == BYTE:
        return bytes([int(token[3:5], 16)])
    if kind == NORMAL and not marked:
        return bytes(byte_alphabet().index(c) for c in token)
    return (token.replace("\u2581", " ") if marked else token).encode()


def main(source, out):
    fields = gguf.GGUFReader(source).fields
    keys = {name: field.contents() for name, field in fields.items() if name.startswith("tokenizer.ggml.")}
    tokens, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    merges = [(merge[:(cut := merge.index(" ", 1))], merge[cut + 1:]) for merge in keys["tokenizer.ggml.merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    marked = keys["tokenizer.ggml.model"] == "gemma4"
    big = Llama(source)
    kept = set() if marked else set(byte_alphabet())
    for text in SEEN:
        for token in big.ids(text):
            kept |= pieces_of(tokens[token], ranks)
    places = [i for i, (token, kind) in enumerate(zip(tokens, kinds))
              if token in kept or kind == BYTE or kind == CONTROL or (kind == USER_DEFINED and not token.startswith("[PAD"))]
    small = {"general.architecture": "llama", "tokenizer.ggml.model": keys["tokenizer.ggml.model"]}
    if "tokenizer.ggml.pre" in keys:
        small["tokenizer.ggml.pre"] = keys["tokenizer.ggml.pre"]
    small["tokenizer.ggml.tokens"] = [tokens[i] for i in places]
    small["tokenizer.ggml.token_type"] = [kinds[i] for i in places]
    small["tokenizer.ggml.merges"] = [" ".join(pair) for pair in merges if {*pair, "".join(pair)} <= kept]
    for name, value in keys.items():
        if name.endswith("_token_id"):
            small[name] = places.index(value)
        elif name.startswith("tokenizer.ggml.add_"):
            small[name] = value
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "small.gguf"
        make_gguf.write(path, small, {})
        model, cases = Llama(path), []
        for text in SEEN + UNSEEN:
            ids = model.ids(text)
            data = b"".join(bytes_of(small["tokenizer.ggml.tokens"][i], small["tokenizer.ggml.token_type"][i], marked) for i in ids)
            cases.append({"text": text, "ids": ids, "decoded": data.decode()})
    pathlib.Path(out).write_text(json.dumps({"gguf": small, "cases": cases}, separators=(",", ":")) + "\n")
    print(len(small["tokenizer.ggml.tokens"]), "tokens,", len(small["tokenizer.ggml.merges"]), "merges,", len(cases), "cases")


silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
main(*sys.argv[1:])
