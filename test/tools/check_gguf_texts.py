# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_gguf_texts.py HEDDLE FOLDER BOX [golden]: --embed of a folder of sentence-transformers as a GGUF file is that of the folder, or its golden.

What GGUF has no place for is taken from the folder first: prompts, the length of the longest text but that of the model, biases and activations of
dense layers. make_gguf.py writes the file.
"""
import json
import pathlib
import shutil
import subprocess
import sys

import make_gguf
import safetensors

LIMIT = 1e-5


def simplify(folder):
    context = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
    (folder / "sentence_bert_config.json").unlink(missing_ok=True)
    (folder / "config_sentence_transformers.json").unlink()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": context}))
    for path in folder.glob("[23]_Dense"):
        config = json.loads((path / "config.json").read_text()) | {"bias": False, "activation_function": "torch.nn.modules.linear.Identity"}
        (path / "config.json").write_text(json.dumps(config))
        tensors = safetensors.load(path / "model.safetensors")
        safetensors.save(path / "model.safetensors", {"linear.weight": tensors["linear.weight"]})


def embed(heddle, model, binary, texts):
    subprocess.run([heddle, "compile", model, "-o", binary, "--quiet"], check=True)
    lines = subprocess.run([binary, "--embed", *texts], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def main():
    heddle, folder, box = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    model, file = box / f"{folder.name}-folder", box / f"{folder.name}.gguf"
    shutil.copytree(folder, model, dirs_exist_ok=True)
    for path in [model, *model.rglob("*")]:
        path.chmod(0o755)
    simplify(model)
    make_gguf.main(model, file, "texts")
    golden = json.loads((folder / "golden.json").read_text())
    texts = golden["texts"]
    wanted = golden["embeddings"] if sys.argv[4:] else embed(heddle, model, box / "embedder", texts)
    got = embed(heddle, file, box / "embedder", texts)
    for text, one, other in zip(texts, wanted, got, strict=True):
        worst = max(abs(a - b) for a, b in zip(one, other, strict=True))
        if not worst <= LIMIT:
            sys.exit(f"{text!r}: off by {worst}: {other[:4]}\u2026, expected {one[:4]}\u2026")


main()
