# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes tiny encoders with a tokenizer, and what PyPI's sentence-transformers and transformers make of texts with them.

make_text_golden.py FOLDER [NAME…]

Writes a model into each of FOLDER/embed (of sentence-transformers), classify, pairs, rerank, tokens, tokens_bpe, fill, fill_bpe and answer, and, of
ModernBERT, modern_embed, modern_classify, modern_tokens and modern_fill, of Nomic BERT nomic_embed, of MPNet mpnet_embed, of ESM esm_fill, of RoBERTa, XLM-RoBERTa and DistilBERT
roberta_embed, xlm_embed and distil_embed, and of decoders that embed texts, last_embed, mean_embed, ahead_embed and
dense_embed, or into those that are named, and golden.json beside it: {"texts": […], "embeddings": […]} or {"cases": [{"command": […], "texts": […], "answers": […]}]}.
Answers are those of transformers' pipelines; transformers 5 has none for questions, so that what transformers 4's did is written out here, as are
the formulas of sentence-transformers for decoders. Not part of the suite, which needs none of these: python -m pip install torch transformers
sentence-transformers
"""
import json
import pathlib
import string
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import numpy
import safetensors.torch
import tokenizers
import torch
import transformers

TEXTS = ["a bad day", "good", "The cat sat on the mat, and then it went away from all of the others who sat there", "xyz!", "fair dog"]
SPANS = ["Angela met the dog in Paris, today", "good", "Zo\u00eb's caf\u00e9 in \u4eac\u90fd: a bad   day!", "xyz", "Bob Dylan, the cat"]
MASKED = ["a [MASK] day", "[MASK]", "the cat and the [MASK] met [MASK] bad dog!", "caf\u00e9 [MASK]."]
PAIRS = [["a bad day", "it is good"], ["the cat", "dog"], ["good " * 30, "the bad cat " * 8], ["", "bad"]]
QUERY = ["who is bad", "the cat", "a dog is bad", "good day to the dog", "xyz"]
QUESTIONS = [["who is bad?", "The caf\u00e9 cat is good, the dog is bad."],
             ["what day", "a good day " * 5 + "and then Zo\u00eb went away from there " + "the bad cat sat on \u4eac " * 4],
             ["where", "Paris"]]
WORDS = ["the", "a", "cat", "dog", "bad", "good", "day"]
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=40)
LABELS = {0: "bad", 1: "fair", 2: "good"}
SPAN_LABELS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}


def word_piece(folder):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *("##" + c for c in string.ascii_lowercase), *WORDS]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return transformers.BertTokenizerFast(vocab={piece: i for i, piece in enumerate(vocabulary)}, model_max_length=40)


def mpnet_piece(folder):
    """MPNet's tokenizer: the pieces of BERT between the ends of RoBERTa."""
    vocabulary = ["<s>", "<pad>", "</s>", "[UNK]", *string.ascii_lowercase, *("##" + c for c in string.ascii_lowercase), *WORDS, "<mask>"]
    folder.mkdir(parents=True, exist_ok=True)
    return transformers.MPNetTokenizer(vocab={piece: i for i, piece in enumerate(vocabulary)}, model_max_length=40)


def byte_level(folder):
    """RoBERTa's tokenizer with a vocabulary of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator((TEXTS + SPANS) * 3, vocab_size=320, min_frequency=2,
                             special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False)
    made.save_model(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    merges = [tuple(line.split(" ")) for line in (folder / "merges.txt").read_text().splitlines()[1:]]
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()
    return transformers.RobertaTokenizerFast(vocab=vocabulary, merges=merges, model_max_length=40)


def unigram(folder):
    """XLM-RoBERTa's tokenizer with a vocabulary of its own, and no table of characters that are written otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizers.Tokenizer(tokenizers.models.Unigram())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=90, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    made.train_from_iterator((TEXTS + SPANS) * 3, trainer)
    pieces = [tuple(entry) for entry in json.loads(made.to_str())["model"]["vocab"]]
    return transformers.XLMRobertaTokenizerFast(vocab=[*pieces, ("<mask>", 0.0)], model_max_length=40)


def modern(folder):
    """ModernBERT's tokenizer with a vocabulary of its own: bytes between BERT's special tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.normalizer = tokenizers.normalizers.NFC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=330, min_frequency=2, special_tokens=special, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator((TEXTS + SPANS) * 3, trainer)
    made.add_special_tokens([tokenizers.AddedToken("[MASK]", lstrip=True, special=True)])
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = tokenizers.processors.Sequence([
        tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends),
        tokenizers.processors.ByteLevel(trim_offsets=True)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=40, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
                                                pad_token="[PAD]", mask_token="[MASK]", model_input_names=["input_ids", "attention_mask"])


def modern_model(kind, tokenizer, **given):
    special = {name: getattr(tokenizer, name) for name in ("pad_token_id", "cls_token_id", "sep_token_id")}
    return make_model(kind, transformers.ModernBertConfig, scale=1.5, vocab_size=len(tokenizer), local_attention=6,
                      **(special | dict(num_hidden_layers=2, bos_token_id=1, eos_token_id=2) | given))


def make_model(kind, config=transformers.BertConfig, scale=1.0, **given):
    torch.manual_seed(3)
    model = kind(config(**{**SIZES, **given})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if name.endswith(("LayerNorm.weight", "norm.weight")) else 0.0, scale * (0.2 if weight.dim() == 1 else weight.shape[-1] ** -0.5))
    return model


def save(folder, model, tokenizer, *cases):
    model.save_pretrained(folder)
    tokenizer.backend_tokenizer.no_truncation()  # which a pipeline leaves behind
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink(missing_ok=True)
    listed = [dict(command=command, texts=texts, answers=answers) for command, texts, answers in cases]
    (folder / "golden.json").write_text(json.dumps({"cases": listed}, indent=1) + "\n")


def embed(folder):
    from sentence_transformers import SentenceTransformer, models
    tokenizer, model = word_piece(folder / "base"), make_model(transformers.BertModel)
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
    (folder / "golden.json").write_text(json.dumps({"texts": TEXTS, "embeddings": whole.encode(TEXTS).tolist()}, indent=1) + "\n")


def modern_embed(folder):
    """The mean of what a text's tokens become, where no file says how to pool."""
    tokenizer = modern(folder)
    model = modern_model(transformers.ModernBertModel, tokenizer)
    save(folder, model, tokenizer)
    with torch.no_grad():
        found = [model(**tokenizer(text, return_tensors="pt", truncation=True)).last_hidden_state[0].mean(dim=0).tolist() for text in TEXTS]
    (folder / "golden.json").write_text(json.dumps({"texts": TEXTS, "embeddings": found}, indent=1) + "\n")


def byte_level_eos(folder, **given):
    """As Qwen3-Embedding's: bytes, padded on the left, with a token behind each text."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=290, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(TEXTS * 3, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>", pad_token="<|endoftext|>", padding_side="left",
                                                **({"model_max_length": 40} | given))


def pool(states, mask, mode):
    """The formulas of sentence-transformers over (texts, tokens, width), padding masked; the last token is the last one that is not."""
    if mode == "mean":
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    if mode == "cls":
        return states[:, 0]
    return torch.stack([row[torch.nonzero(kept)[-1, 0]] for row, kept in zip(states, mask)])


def decoder_embed(folder, kind, config, mode, most=None, prompt="", dense=(), make_tokenizer=byte_level_eos, **given):
    """A folder of sentence-transformers, of a decoder but for another tokenizer. `mode`: mean, cls or last. `dense`: (out, bias, activation) of layers behind pooling."""
    tokenizer = make_tokenizer(folder)
    sizes = dict(num_hidden_layers=2, vocab_size=1 + max(tokenizer.get_vocab().values()))
    if make_tokenizer is byte_level_eos:
        sizes |= dict(head_dim=8, pad_token_id=0, bos_token_id=None, num_key_value_heads=2, eos_token_id=0)
    model = make_model(kind, config, scale=1.5, **(sizes | given))
    save(folder, model, tokenizer)
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), *((f"{i + 2}_Dense", "Dense") for i in range(len(dense))),
             (f"{len(dense) + 2}_Normalize", "Normalize")]
    listed = [dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{name}") for i, (path, name) in enumerate(parts)]
    (folder / "modules.json").write_text(json.dumps(listed, indent=1) + "\n")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    flags = {f"pooling_mode_{name}": name == dict(mean="mean_tokens", cls="cls_token", last="lasttoken")[mode] for name in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")}
    (folder / "1_Pooling/config.json").write_text(json.dumps(dict(word_embedding_dimension=32, **flags, include_prompt=True), indent=1) + "\n")
    (folder / "config_sentence_transformers.json").write_text(json.dumps(
        dict(prompts=dict(query=prompt, document=""), default_prompt_name="query" if prompt else None, similarity_fn_name="cosine"), indent=1) + "\n")
    if most:
        (folder / "sentence_bert_config.json").write_text(json.dumps(dict(max_seq_length=most, do_lower_case=False)) + "\n")
    texts = [*TEXTS, "a", "Zo\u00eb \u4eac!"]
    batch = tokenizer([prompt + text for text in texts], return_tensors="pt", padding=True, truncation=True, max_length=most or 40)
    places = {"position_ids": (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)} if tokenizer.padding_side == "left" else {}
    with torch.no_grad():
        states = model.base_model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **places).last_hidden_state
        x = pool(states, batch["attention_mask"], mode)
        for i, (out, bias, activation) in enumerate(dense):
            layer = torch.nn.Linear(x.shape[1], out, bias)
            path = folder / f"{i + 2}_Dense"
            path.mkdir(exist_ok=True)
            (path / "config.json").write_text(json.dumps(dict(in_features=x.shape[1], out_features=out, bias=bias,
                                                              activation_function=f"torch.nn.modules.{activation}")) + "\n")
            safetensors.torch.save_file({f"linear.{name}": value.contiguous() for name, value in layer.state_dict().items()}, path / "model.safetensors")
            x = getattr(torch.nn, activation.split(".")[-1])()(layer(x))
        found = torch.nn.functional.normalize(x, dim=1)
    (folder / "golden.json").write_text(json.dumps({"texts": texts, "embeddings": found.tolist()}, indent=1) + "\n")


def last_embed(folder):
    """Qwen3-Embedding: no head beside embeddings that are not tied."""
    decoder_embed(folder, transformers.Qwen3Model, transformers.Qwen3Config, "last", tie_word_embeddings=False)


def mean_embed(folder):
    """Windows that texts fall out of, a prompt, and texts that are too long."""
    decoder_embed(folder, transformers.MistralModel, transformers.MistralConfig, "mean", most=14, prompt="query: ", sliding_window=5)


def ahead_embed(folder):
    """A decoder whose tokens see all of their text, with its head in the checkpoint."""
    decoder_embed(folder, transformers.Qwen2ForCausalLM, transformers.Qwen2Config, "mean", tie_word_embeddings=False, is_causal=False)


def dense_embed(folder):
    """EmbeddingGemma: layers behind pooling."""
    decoder_embed(folder, transformers.Gemma3TextModel, transformers.Gemma3TextConfig, "mean", use_bidirectional_attention=True, sliding_window=6,
                  layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=8,
                  dense=[(48, True, "activation.Tanh"), (24, False, "linear.Identity")])


def nomic_embed(folder):
    decoder_embed(folder, transformers.NomicBertModel, transformers.NomicBertConfig, "mean", make_tokenizer=word_piece, head_dim=8, pad_token_id=0,
                  bos_token_id=None)


def roberta_embed(folder):
    """The kin of BERT that GGUF calls bert as well: positions behind that of padding, one type of tokens or none, other vocabularies."""
    decoder_embed(folder, transformers.RobertaModel, transformers.RobertaConfig, "mean", make_tokenizer=byte_level, max_position_embeddings=42, type_vocab_size=1)


def xlm_embed(folder):
    decoder_embed(folder, transformers.XLMRobertaModel, transformers.XLMRobertaConfig, "cls", make_tokenizer=unigram, max_position_embeddings=42, type_vocab_size=1)


def distil_embed(folder):
    decoder_embed(folder, transformers.DistilBertModel, transformers.DistilBertConfig, "mean", make_tokenizer=word_piece, hidden_dim=48)


def mpnet_embed(folder):
    decoder_embed(folder, transformers.MPNetModel, transformers.MPNetConfig, "mean", most=30, make_tokenizer=mpnet_piece, max_position_embeddings=42)


def classify(folder):
    tokenizer, model = word_piece(folder), make_model(transformers.BertForSequenceClassification, id2label=LABELS)
    classify_with(folder, tokenizer, model)


def modern_classify(folder):
    tokenizer = modern(folder)
    classify_with(folder, tokenizer, modern_model(transformers.ModernBertForSequenceClassification, tokenizer, id2label=LABELS, classifier_pooling="mean"))


def classify_with(folder, tokenizer, model):
    run = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None)
    answers = [dict(labels=found) for found in run(TEXTS, truncation=True)]
    save(folder, model, tokenizer, (["--classify"], TEXTS, answers),
         (["--classify", "--top-k", "1"], TEXTS, [dict(labels=answer["labels"][:1]) for answer in answers]))


def pairs(folder):
    """Labels that do not exclude each other, of pairs, as a RoBERTa joins them."""
    tokenizer = byte_level(folder)
    model = make_model(transformers.RobertaForSequenceClassification, transformers.RobertaConfig, id2label=LABELS, vocab_size=len(tokenizer),
                       problem_type="multi_label_classification", max_position_embeddings=42, type_vocab_size=1)
    run = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None)
    found = run([dict(text=a, text_pair=b) for a, b in PAIRS], truncation=True)
    save(folder, model, tokenizer, (["--classify", "--pairs"], PAIRS, [dict(labels=one) for one in found]))


def rerank(folder):
    tokenizer, model = word_piece(folder), make_model(transformers.BertForSequenceClassification, num_labels=1)
    run = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    query, *texts = QUERY
    scores = [one["score"] for one in run([dict(text=query, text_pair=text) for text in texts])]
    order = sorted(range(len(texts)), key=lambda i: -scores[i])
    save(folder, model, tokenizer,
         (["--rerank"], QUERY, [dict(texts=[dict(index=i, score=scores[i], text=texts[i]) for i in order])]))


def span_cases(model, tokenizer):
    for how in ("none", "simple", "first", "average", "max"):
        run = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu", aggregation_strategy=how)
        answers = []
        for text in SPANS:
            spans = []
            for one in run(text):
                begin, end = int(one["start"]), int(one["end"])
                token = dict(token=tokenizer.decode([tokenizer(text)["input_ids"][one["index"]]])) if how == "none" else {}
                spans.append(token | dict(label=one["entity" if how == "none" else "entity_group"], score=float(one["score"]), start=begin, end=end,
                                          text=text[begin:end]))
            answers.append(dict(spans=spans))
        yield ["--token-classify", "--aggregate", how], SPANS, answers


def tokens(folder):
    tokenizer, model = word_piece(folder), make_model(transformers.BertForTokenClassification, scale=1.5, id2label=SPAN_LABELS)
    save(folder, model, tokenizer, *span_cases(model, tokenizer))


def tokens_bpe(folder):
    tokenizer = byte_level(folder)
    model = make_model(transformers.RobertaForTokenClassification, transformers.RobertaConfig, scale=1.5, id2label=SPAN_LABELS, vocab_size=len(tokenizer),
                       max_position_embeddings=66, type_vocab_size=1)
    save(folder, model, tokenizer, *span_cases(model, tokenizer))


def modern_tokens(folder):
    tokenizer = modern(folder)
    model = modern_model(transformers.ModernBertForTokenClassification, tokenizer, id2label=SPAN_LABELS, max_position_embeddings=66)
    save(folder, model, tokenizer, *span_cases(model, tokenizer))


def mask_case(model, tokenizer, texts, *more):
    run = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu", top_k=int(more[1]) if more else 5)
    answers = []
    for text in texts:
        found = run(text)
        masks = found if isinstance(found[0], list) else [found]
        answers.append(dict(masks=[[dict(token=one["token_str"], id=one["token"], score=one["score"]) for one in mask] for mask in masks]))
    return ["--fill-mask", *more], texts, answers


def fill(folder):
    tokenizer, model = word_piece(folder), make_model(transformers.BertForMaskedLM)
    save(folder, model, tokenizer, mask_case(model, tokenizer, MASKED), mask_case(model, tokenizer, MASKED, "--top-k", "2"))


def fill_bpe(folder):
    tokenizer = byte_level(folder)
    model = make_model(transformers.RobertaForMaskedLM, transformers.RobertaConfig, vocab_size=len(tokenizer), max_position_embeddings=42, type_vocab_size=1)
    save(folder, model, tokenizer, mask_case(model, tokenizer, [text.replace("[MASK]", "<mask>") for text in MASKED]))


def esm_fill(folder):
    """Tokens of one letter without white space between, and letters that are none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]))
    tokenizer = transformers.EsmTokenizer(str(folder / "vocab.txt"), model_max_length=40)
    model = make_model(transformers.EsmForMaskedLM, transformers.EsmConfig, vocab_size=33, mask_token_id=32, pad_token_id=1, token_dropout=True,
                       position_embedding_type="rotary")
    case = mask_case(model, tokenizer, ["MKT<mask>YIAK", "<mask>", "MK TJ <mask>A <mask>mk-LAGVSERTIDPKQNFYMHWC", "A\u00e9B <mask>."])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "golden.json").write_text(json.dumps({"cases": [dict(command=case[0], texts=case[1], answers=case[2])]}, indent=1) + "\n")


def modern_fill(folder):
    tokenizer = modern(folder)
    model = modern_model(transformers.ModernBertForMaskedLM, tokenizer)
    save(folder, model, tokenizer, mask_case(model, tokenizer, MASKED))


def find_answer(model, tokenizer, question, context, longest=15):
    """What transformers 4's question-answering pipeline gave."""
    most = min(tokenizer.model_max_length, 384)
    found = tokenizer(question, context, truncation="only_second", max_length=most, stride=min(most // 2, 128), return_overflowing_tokens=True,
                      return_offsets_mapping=True)
    best = (-1.0, 0, 0)
    for window in range(len(found["input_ids"])):
        given = {key: torch.tensor([found[key][window]]) for key in tokenizer.model_input_names}
        with torch.no_grad():
            said = model(**given)
        kept = [side == 1 or place == 0 for place, side in enumerate(found.sequence_ids(window))]
        chances = []
        for logits in (said.start_logits[0].numpy(), said.end_logits[0].numpy()):
            logits = numpy.where(kept, logits, -10000.0)
            shares = numpy.exp(logits - logits.max())
            shares = shares / shares.sum()
            shares[0] = 0
            chances.append(shares)
        products = numpy.tril(numpy.triu(numpy.outer(*chances)), longest - 1)
        first, last = numpy.unravel_index(products.argmax(), products.shape)
        if products[first, last] > best[0]:
            whole = found[window]
            words = whole.token_to_word(int(first)), whole.token_to_word(int(last))
            best = (float(products[first, last]), whole.word_to_chars(words[0], 1)[0], whole.word_to_chars(words[1], 1)[1])
    score, begin, end = best
    return dict(answer=context[begin:end], score=score, start=begin, end=end)


def answer(folder):
    tokenizer, model = word_piece(folder), make_model(transformers.BertForQuestionAnswering, scale=1.5)
    save(folder, model, tokenizer, (["--answer"], QUESTIONS, [find_answer(model, tokenizer, *question) for question in QUESTIONS]))


def main():
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    for make in (embed, classify, pairs, rerank, tokens, tokens_bpe, fill, fill_bpe, answer, esm_fill, modern_embed, modern_classify, modern_tokens, modern_fill, last_embed,
                 mean_embed, ahead_embed, dense_embed, nomic_embed, mpnet_embed, roberta_embed, xlm_embed, distil_embed):
        if not names or make.__name__ in names:
            make(folder / make.__name__)


main()
