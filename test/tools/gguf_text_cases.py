# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gguf_text_cases.py HEDDLE TEXTS BOX: what GGUF files of models that embed texts may say in more than one way, and what of them is refused.

Each case is a file that make_gguf.py makes of a folder in TEXTS, changed. Prints one line per broken promise; exit status 1 if there is any.
"""
import json
import pathlib
import subprocess
import sys

import make_gguf

WORD = "\u2581"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXT = "A bad caf\u00e9 [MASK], Zo\u00eb"


def ids(heddle, file, text=TEXT):
    done = subprocess.run([heddle, "tokenize", file], input=json.dumps({"text": text}), stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)["ids"]


def without_types(keys, mark=""):
    """As files had it before there were types of tokens, or keys for the special ones."""
    keys["tokenizer.ggml.token_type"] = [1] * len(keys["tokenizer.ggml.tokens"])
    keys["tokenizer.ggml.tokens"] = [mark + piece if piece in SPECIAL else piece for piece in keys["tokenizer.ggml.tokens"]]
    for name in [name for name in keys if name.endswith("_token_id")]:
        del keys[name]


def foreign(keys, mark):
    """What the converter makes of a vocabulary that marks words in another way."""
    keys["tokenizer.ggml.tokens"] = [piece if piece in SPECIAL else WORD + mark + piece.lstrip(WORD) for piece in keys["tokenizer.ggml.tokens"]]


def renamed(keys, tensors, architecture):
    old = keys["general.architecture"]
    for name in [name for name in keys if name.startswith(old + ".")]:
        keys[architecture + name[len(old):]] = keys.pop(name)
    keys["general.architecture"] = architecture


def added_token(keys, tensors):
    """An added token begins a word, as all that are not special do in such a file."""
    place = keys["tokenizer.ggml.tokens"].index(WORD + "dog")
    keys["tokenizer.ggml.token_type"][place] = 4


def main():
    heddle, texts, box = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    file, faults = box / "case.gguf", []

    def write(model, change):
        keys, tensors = make_gguf.convert(texts / model, "texts")
        change(keys, tensors)
        make_gguf.write(file, keys, tensors)
        return keys

    def expect(what, model, change, wanted, text=TEXT):
        write(model, change)
        if (found := ids(heddle, file, text)) != wanted:
            faults.append(f"{what}: {found}, expected {wanted}")

    def refuse(what, model, change):
        write(model, change)
        done = subprocess.run([heddle, "compile", file, "-o", box / "out"], stderr=subprocess.PIPE, text=True)
        if done.returncode != 2 or what not in done.stderr or done.stderr.count("\n") != 1:
            faults.append(f"status {done.returncode}: {done.stderr.strip()[:400]}, expected status 2 and: {what}")

    keys = write("distil_embed", lambda keys, tensors: None)
    number = {piece: i for i, piece in enumerate(keys["tokenizer.ggml.tokens"])}
    spelled = [number["[CLS]"], number[WORD + "a"], number[WORD + "bad"], number[WORD + "c"], number["a"], number["f"], number["e"], number["[MASK]"],
               number["[UNK]"], number[WORD + "z"], number["o"], number["e"], number["[SEP]"]]
    expect("as it is", "distil_embed", lambda keys, tensors: None, spelled)
    expect("no types", "distil_embed", lambda keys, tensors: without_types(keys), spelled)
    expect("no types, marked", "distil_embed", lambda keys, tensors: without_types(keys, WORD), spelled)
    expect("an added token", "distil_embed", added_token, [number["[CLS]"], number[WORD + "dog"], number["[SEP]"]], "dog")
    cased = [number["[CLS]"], number["[UNK]"], number[WORD + "a"], number["[SEP]"]]
    expect("case kept", "distil_embed", lambda keys, tensors: keys.update({"tokenizer.ggml.normalizer.lowercase": False}), cased, "A a")
    accents = [number["[CLS]"], number["[UNK]"], number[WORD + "a"], number["[SEP]"]]
    expect("accents kept", "distil_embed", lambda keys, tensors: keys.update({"tokenizer.ggml.normalizer.strip_accents": False}), accents, "\u00e9 A")

    for mark in WORD, "\u0120":
        refuse("tokens mark the spaces of another kind of vocabulary", "distil_embed", lambda keys, tensors: foreign(keys, mark))
    for architecture in "bert-of-tomorrow", "dream":
        refuse(f"architecture '{architecture}' (general.architecture) is not supported", "roberta_embed",
               lambda keys, tensors: renamed(keys, tensors, architecture))
    refuse("bert.pooling_type is 4, rank, which is not supported", "roberta_embed", lambda keys, tensors: keys.update({"bert.pooling_type": 4}))
    for key, found in ("dense_2_feat_in", "tensor dense_2.weight has 32 columns"), ("dense_3_feat_out", "tensor dense_3.weight has 24 rows"):
        refuse(f"gemma-embedding.{key} is 40, but {found}", "dense_embed", lambda keys, tensors: keys.update({f"gemma-embedding.{key}": 40}))
    refuse("gemma-embedding.dense_3_feat_out is 24, but there is no tensor dense_3.weight", "dense_embed",
           lambda keys, tensors: tensors.pop("dense_3.weight"))
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
