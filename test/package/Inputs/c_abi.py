# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""c_abi.py DECODER ENCODER GRAPH SEQ2SEQ MODELS: what packaging/heddle makes of the C ABI, against the goldens of transformers in MODELS/llama
MODELS/bert and MODELS/bart, which the decoder, the encoder and the encoder-decoder were compiled from. Each part says its name once it holds."""
import array
import json
import os
import re
import sys
import threading

import heddle
import safetensors


def refuses(status, part, call):
    try:
        call()
    except heddle.Error as error:
        assert error.status == status and part in str(error), (error.status, str(error))
    else:
        raise AssertionError(f"not refused: {part}")


def farthest(a, b):
    assert len(a) == len(b), (len(a), len(b))
    return max(map(lambda x, y: abs(x - y), a, b))


def check_decoder(decoder, goldens):
    ids, wanted = list(goldens["p2.input_ids"][2]), list(goldens["p2.greedy_ids"][2])
    session = heddle.Session(decoder, threads=2, max_sequences=3, keep_hidden=True)
    rows = session.forward([heddle.Feed(0, ids, rows="all"), heddle.Feed(1, ids[:5], rows="none"), heddle.Feed(2, ids)])
    flat = array.array("f", b"".join(row.logits.tobytes() for row in rows if row.feed == 0))
    assert farthest(flat, goldens["p2.logits"][2]) < 1e-4
    assert [row.token for row in rows if row.feed == 0] == list(range(len(ids))) and [row.token for row in rows if row.feed == 2] == [len(ids) - 1]
    assert len(rows[0].hidden_state) == decoder.hidden_size

    # A fork, cut off and continued, is what the whole prompt is.
    session.fork(0, 1)
    session.truncate(5, 1)
    session.append(ids[5:], 1)
    assert farthest(session.logits(), rows[len(ids) - 1].logits) < 1e-4 and session.history(1) == ids
    for sequence in range(3):
        session.truncate(0, sequence)

    streamed = []
    answer = session.generate(ids, max_tokens=24, ignore_eos=True, on_token=lambda token, text: streamed.append(token))
    assert answer.ids == wanted == [token for token in streamed if token is not None] and answer.reason == "max_tokens"
    session.truncate(0)
    best = session.search_beams(ids, beams=1, max_tokens=8, ignore_eos=True)
    assert best[0].ids == wanted[:8] and best[0].score < 0

    # Cancelled by another thread, from a callback that waits for it.
    def cancel(token, text):
        thread = threading.Thread(target=session.cancel)
        thread.start()
        thread.join()
    refuses("CANCELLED", "cancelled", lambda: session.generate(ids, max_tokens=24, ignore_eos=True, on_token=cancel))
    assert session.length() == len(ids)
    session.truncate(0)
    session.on_progress(lambda done, total: True)
    refuses("CANCELLED", "interrupted", lambda: session.append(ids))
    session.on_progress(None)
    assert session.length() == 0

    def fails(token, text):
        raise KeyError("mine")
    try:
        session.generate(ids, on_token=fails)
        raise AssertionError("the callback's error is lost")
    except KeyError:
        session.truncate(0)

    sampler = heddle.Sampler(decoder, temperature=0.5, seed=3)
    session.append(ids)
    assert sampler.sample(session.logits(), allowed=[77]) == 77
    refuses("INVALID_INPUT", "allows no token", lambda: sampler.sample(session.logits(), allowed=[]))
    refuses("CONTEXT_FULL", "the context 128", lambda: session.append([5] * 200))
    refuses("INVALID_INPUT", "token id 256", lambda: session.append([256]))
    refuses("CONTEXT_FULL", "is full", lambda: heddle.Session(decoder, max_sequences=2, cache_tokens=64).step(
        [heddle.Feed(0, ids), heddle.Feed(1, ids)]))
    print("decoder")


def check_json(decoder):
    """A grammar by masks: [N, N, …], each N a number of up to three digits, at least two of them."""
    states = re.compile(r"\[(N, )+N\]|\[(N, )*(N?|N,)|".replace("N", r"(0|[1-9]\d{0,2})"))

    def allowed(ids):
        text = bytes(ids[len(prompt):]).decode()
        if text.endswith("]"):
            return [2]
        return [byte for byte in b"[]0123456789, " if states.fullmatch(text + chr(byte))]
    prompt = decoder.encode_chat([{"role": "user", "content": "numbers, please"}])
    for seed in range(4):
        session = heddle.Session(decoder)
        answer = session.generate(prompt, max_tokens=100, allowed=allowed, temperature=5.0, seed=seed)
        text = bytes(token for token in answer.ids if token != 2).decode()
        assert answer.reason == "end_token" and len(json.loads(text)) >= 2, text
    print("json")


def check_text(decoder):
    assert decoder.decode(decoder.encode("naïve")) == "naïve" and decoder.token_bytes(0xC3) == b"\xc3"
    messages = [{"role": "user", "content": "hi"}]
    assert decoder.render_chat(messages) == "[user]hi\n[answer]" and decoder.render_chat(messages, add_generation_prompt=False) == "[user]hi\n"
    assert decoder.end_tokens() == [2] and decoder.special_token("unknown") is None and decoder.sampler_defaults()["temperature"] == 0
    stream = heddle.TextStream(decoder, stops=["stop"])
    text = ""
    for byte in "né st, stop here".encode():
        text += stream.append(byte)
        if stream.stopped:
            break
    assert text + stream.finish() == "né st, "
    assert decoder.task == "generate" and "context 128" in re.sub(" +", " ", decoder.info())
    print("text")


def check_functions(encoder, graph, goldens):
    function = heddle.Function(encoder, threads=2)
    names = {"input_ids", "attention_mask", "token_type_ids"}
    inputs = {name: heddle.Tensor(*goldens[f"padded.{name}"]) for name in names}
    outputs = function(**inputs)
    rows, length, size = outputs["last_hidden_state"].shape
    hidden, wanted = array.array("f", outputs["last_hidden_state"].data), goldens["padded.base.last_hidden_state"][2]
    for at, kept in enumerate(goldens["padded.attention_mask"][2]):
        if kept:
            assert farthest(hidden[at * size:(at + 1) * size], wanted[at * size:(at + 1) * size]) < 1e-4, at
    assert farthest(array.array("f", outputs["pooler_output"].data), goldens["padded.base.pooler_output"][2]) < 1e-4
    refuses("INVALID_INPUT", "input_ids", lambda: function(attention_mask=inputs["attention_mask"]))

    pool = heddle.ThreadPool(2)
    first, decode = heddle.Function(graph, pool=pool), heddle.Function(graph, "decode", pool=pool)
    assert graph.functions == ["encoder", "decode"] and decode.inputs[1].dimensions == ["past", ""]
    x = heddle.Tensor("F32", [3, 16], array.array("f", [i % 5 for i in range(48)]))
    memory = first(x=x)["memory"]
    y = decode(q=heddle.Tensor("F32", [1, 16], x.data[:16]), memory=memory)["y"]
    assert y.shape == [1, 16] and any(array.array("f", y.data))
    refuses("INVALID_INPUT", "expected F32", lambda: first(x=heddle.Tensor("I32", [3, 16], array.array("i", [0] * 48))))
    print("functions")


def check_damage(path):
    damaged = path + ".damaged"
    data = bytearray(open(path, "rb").read())
    data[data.index(b"HDPK") + 100] ^= 1  # in the metadata
    open(damaged, "wb").write(data)
    refuses("DAMAGED_FILE", "damaged", lambda: heddle.Package(damaged))
    open(damaged, "wb").write(data[:len(data) // 2])
    refuses("DAMAGED_FILE", "", lambda: heddle.Package(damaged))
    refuses("INVALID_INPUT", "cannot be opened", lambda: heddle.Package(path + ".none"))

    # What was read into memory does not care for what becomes of the file.
    data = open(path, "rb").read()
    open(damaged, "wb").write(data)
    notes = []
    package = heddle.Package(damaged, read_into_memory=True, log=lambda is_warning, message: notes.append((is_warning, message)))
    session = heddle.Session(package, threads=os.cpu_count() + 1)
    assert notes[0][0] and "threads run" in notes[0][1], notes
    package.check()
    print("damage")


def check_answers(seq2seq, decoder, goldens):
    """Sources of a batch, a decoder that reads each, a fork that shares one, and answers of prompts."""
    assert seq2seq.task == "seq2seq"
    session = heddle.Session(seq2seq, threads=2, max_sequences=3)
    source, decoded = list(goldens["e0.input_ids"][2]), list(goldens["e0.decoder_input_ids"][2])
    refuses("INVALID_INPUT", "sequence 0 has no source", lambda: session.append(decoded))
    session.encode([heddle.Feed(1, source), heddle.Feed(0, [5, 6, 7])])
    rows = session.forward([heddle.Feed(1, decoded, rows="all")])
    assert farthest(array.array("f", b"".join(row.logits.tobytes() for row in rows)), goldens["e0.logits"][2]) < 1e-4
    session.fork(1, 2)
    session.append([9], 1)
    alone = session.logits()
    session.encode([heddle.Feed(1, [8, 9])]) # the fork keeps its source
    session.append([9], 2)
    assert session.logits() == alone and session.length(1) == 0
    wanted = list(goldens["e0.greedy_ids"][2])
    assert session.generate(source, max_tokens=16, ignore_eos=True).ids == wanted
    assert session.length() == 16 and session.history()[0] == 2 # what the decoder starts with
    beams = session.search_beams(source, beams=1, max_tokens=6, ignore_eos=True)
    assert beams[0].ids == wanted[:6]
    for feeds, part in [([heddle.Feed(0, [256])], "token id 256"), ([heddle.Feed(3, [5])], "sequence 3 is not in"), ([], "0 feeds"),
                        ([heddle.Feed(0, [5]), heddle.Feed(0, [6])], "sequence 0 is twice"), ([heddle.Feed(0, [5] * 65)], "has 65 tokens")]:
        refuses("INVALID_INPUT", part, lambda: session.encode(feeds))
    refuses("INVALID_INPUT", "sequence 0 has no source", lambda: session.append([5]))
    # All feeds are looked at before the first source is replaced, however many there are.
    many = heddle.Session(seq2seq, threads=2, max_sequences=70)
    refuses("INVALID_INPUT", "sequence 0 is twice", lambda: many.encode([heddle.Feed(i % 69, [5]) for i in range(70)]))
    refuses("INVALID_INPUT", "token id 256 of sequence 69", lambda: many.encode([heddle.Feed(i, [5 if i < 69 else 256]) for i in range(70)]))
    refuses("INVALID_INPUT", "sequence 1 has no source", lambda: many.append([5], 1))
    many.encode([heddle.Feed(i, [5]) for i in range(70)])
    many.append([5], 69)
    refuses("INVALID_INPUT", "this model has no encoder", lambda: heddle.Session(decoder).encode([heddle.Feed(0, [5])]))
    print("answers")


def main(decoder, encoder, graph, seq2seq, models):
    goldens = [safetensors.load(f"{models}/{name}/golden.safetensors") for name in ("llama", "bert", "bart")]
    check_damage(decoder)
    packages = [heddle.Package(path) for path in (decoder, encoder, graph, seq2seq)]
    check_text(packages[0])
    check_decoder(packages[0], goldens[0])
    check_json(packages[0])
    check_functions(packages[1], packages[2], goldens[1])
    check_answers(packages[3], packages[0], goldens[2])


main(*sys.argv[1:])
