# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes tiny encoders with a tokenizer, and what PyPI's sentence-transformers and transformers make of texts with them.

make_text_golden.py FOLDER

Writes FOLDER/embed (a sentence-transformers model), FOLDER/classify and FOLDER/tokens (classifiers of texts and of their tokens), and golden.json
in each: {"texts": […], "embeddings" | "labels" | "tokens": …}. Not part of the suite, which needs none of these:
python -m pip install torch transformers sentence-transformers
"""
import json
import pathlib
import string
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

from sentence_transformers import SentenceTransformer, models
import torch
import transformers

TEXTS = ["a bad day", "good", "The cat sat on the mat, and then it went away from all of the others who sat there", "xyz!", "fair dog"]
SHORT = [text for text in TEXTS if len(text) < 20]  # no one cuts texts for this task
WORDS = ["the", "a", "cat", "dog", "bad", "good", "day"]
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=40)
LABELS = {0: "bad", 1: "fair", 2: "good"}


def make_tokenizer(folder):
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *("##" + c for c in string.ascii_lowercase), *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return transformers.BertTokenizerFast(vocab={piece: i for i, piece in enumerate(vocabulary)}, model_max_length=40)


def make_model(kind, **given):
    torch.manual_seed(3)
    model = kind(transformers.BertConfig(**SIZES, **given)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "LayerNorm.weight" in name else 0.0, 0.2 if weight.dim() == 1 else weight.shape[-1] ** -0.5)
    return model


def write(folder, **golden):
    (folder / "golden.json").write_text(json.dumps({"texts": TEXTS} | golden, indent=1) + "\n")


def embed(folder):
    tokenizer, model = make_tokenizer(folder / "base"), make_model(transformers.BertModel)
    model.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    body = models.Transformer(str(folder / "base"), max_seq_length=12)
    pooling = models.Pooling(32, pooling_mode="mean")
    whole = SentenceTransformer(modules=[body, pooling, models.Normalize()], device="cpu")
    whole.save(str(folder))
    for path in (folder / "base").iterdir():
        path.unlink()
    (folder / "base").rmdir()
    (folder / "README.md").unlink()
    write(folder, embeddings=whole.encode(TEXTS).tolist())


def classify(folder):
    tokenizer, model = make_tokenizer(folder), make_model(transformers.BertForSequenceClassification, id2label=LABELS)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    run = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None)
    write(folder, labels=run(TEXTS, truncation=True))


def tokens(folder):
    tokenizer, model = make_tokenizer(folder), make_model(transformers.BertForTokenClassification, id2label=LABELS)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    run = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu", ignore_labels=[])
    piece = lambda text, t: tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])[t["index"]]  # "word" is the text's own
    found = [[{"token": piece(text, t), "label": t["entity"], "score": float(t["score"])} for t in run(text)] for text in SHORT]
    write(folder, texts=SHORT, tokens=found)


def main():
    folder = pathlib.Path(sys.argv[1])
    embed(folder / "embed")
    classify(folder / "classify")
    tokens(folder / "tokens")


main()
