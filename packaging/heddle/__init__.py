# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs models that `heddle compile --emit=package` made, through libheddle.so; ctypes and the standard library alone.

    package = heddle.Package("model.so")
    session = heddle.Session(package)
    session.generate(package.encode("Once upon a time"), max_tokens=50, on_token=lambda id, text: print(text, end="", flush=True))

Every class stands for the object of heddle.h of the same name, which says what the calls do; objects are freed by close(), at the end of
`with`, or with their Python objects, after those that were made of them. Failures raise Error, whose `status` is a name of heddle_status ("CONTEXT_FULL").
Rows of logits are `array('f')`; tensors are Tensor(type, shape, data), data any buffer, type as safetensors spells it ("F32").
The library is what $HEDDLE_LIBRARY names, else that of the installed wheel, else what the loader finds as libheddle.so.0.
"""
import array
import collections
import ctypes
import json
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

STATUSES = ["OK", "FAILURE", "INVALID_INPUT", "OUT_OF_MEMORY", "CANCELLED", "CONTEXT_FULL", "NOT_FINITE", "DAMAGED_FILE"]
TASKS = {0: "generate", 1: "encode", 3: "seq2seq", 4: "graph"}
END_REASONS = ["end_token", "max_tokens", "context", "stop_string", "callback"]
TYPES = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL"]
SIZES = [4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1]
ABI_VERSION = 1

Tensor = collections.namedtuple("Tensor", "type shape data")
TensorInfo = collections.namedtuple("TensorInfo", "name type shape dimensions")
Feed = collections.namedtuple("Feed", "sequence ids positions rows", defaults=(None, "last"))
Row = collections.namedtuple("Row", "feed token logits hidden_state")
Answer = collections.namedtuple("Answer", "ids text reason")
Beam = collections.namedtuple("Beam", "ids score")


class Error(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Struct(ctypes.Structure):
    """One of heddle.h's, with its size set."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


def _struct(name, *fields):
    return type(name, (_Struct,), {"_fields_": [("size", c_size_t), *fields]})


_LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
_RowCallback = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_int32, POINTER(c_float), POINTER(c_float))
_TokenCallback = ctypes.CFUNCTYPE(c_int, c_void_p, c_int32, c_void_p, c_size_t)
_MaskCallback = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_int32), c_size_t, POINTER(c_uint32))
_ProgressCallback = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64, c_int64)
_BeamCallback = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_int32), c_size_t, c_double)

_OpenOptions = _struct("_OpenOptions", ("read_into_memory", c_int32), ("reserved", c_int32), ("log", _LogCallback), ("log_user", c_void_p),
                       ("cpu", c_char_p))
_StreamOptions = _struct("_StreamOptions", ("keep_special", c_int32), ("num_stops", c_int32), ("stops", POINTER(c_char_p)))
_SamplerOptions = _struct("_SamplerOptions", ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float), ("min_p", c_float),
                          ("repetition_penalty", c_float), ("reserved", c_int32), ("seed", c_uint64))
_SessionOptions = _struct("_SessionOptions", ("threads", c_int32), ("max_sequences", c_int32), ("context", c_int64), ("cache_tokens", c_int64),
                          ("keep_hidden", c_int32), ("deterministic", c_int32), ("device", c_char_p), ("pool", c_void_p))
_Feed = _struct("_Feed", ("sequence", c_int32), ("count", c_int32), ("ids", POINTER(c_int32)), ("positions", POINTER(c_int32)),
                ("rows", c_int32), ("adapter", c_int32))
_GenerateOptions = _struct("_GenerateOptions", ("max_tokens", c_int64), ("ignore_eos", c_int32), ("num_stops", c_int32),
                           ("stops", POINTER(c_char_p)), ("sampler", POINTER(_SamplerOptions)), ("mask", _MaskCallback), ("mask_user", c_void_p))
_GenerateResult = _struct("_GenerateResult", ("num_tokens", c_int64), ("reason", c_int32), ("reserved", c_int32))
_BeamOptions = _struct("_BeamOptions", ("beams", c_int32), ("returned", c_int32), ("max_tokens", c_int64), ("length_penalty", c_float),
                       ("repetition_penalty", c_float), ("early_stopping", c_int32), ("ignore_eos", c_int32))
_Tensor = _struct("_Tensor", ("name", c_char_p), ("type", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)), ("data", c_void_p))
_TensorInfo = _struct("_TensorInfo", ("name", c_char_p), ("type", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)),
                      ("dimensions", POINTER(c_char_p)))
_FunctionOptions = _struct("_FunctionOptions", ("name", c_char_p), ("threads", c_int32), ("reserved", c_int32), ("pool", c_void_p))


def _load():
    installed = pathlib.Path(__file__).parent / "installed" / "lib" / "libheddle.so.0"
    path = os.environ.get("HEDDLE_LIBRARY") or (str(installed) if installed.exists() else "libheddle.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"no libheddle.so for the module heddle: {error}; HEDDLE_LIBRARY can name one") from None
    for name, result in [("error_message", c_char_p), ("version_string", c_char_p), ("abi_version", c_uint32), ("package_name", c_char_p),
                         ("package_vocab_size", c_int64), ("package_hidden_size", c_int64), ("package_context", c_int64),
                         ("package_num_functions", c_size_t), ("package_function_name", c_char_p), ("session_length", c_int64),
                         ("session_logits", POINTER(c_float)), ("session_hidden_state", POINTER(c_float)), ("function_num_inputs", c_size_t),
                         ("function_num_outputs", c_size_t), ("function_result", POINTER(_Tensor)), ("package_special_token", c_int32)]:
        getattr(library, "heddle_" + name).restype = result
    if library.heddle_abi_version() != ABI_VERSION:
        raise ImportError(f"libheddle.so has ABI version {library.heddle_abi_version()}, this module is of {ABI_VERSION}")
    return library


class _Library:
    """Loaded when it is first called: the commands of the wheel (tools.py) do without."""

    _loaded = None

    def __getattr__(self, name):
        if self._loaded is None:
            self._loaded = _load()
        return getattr(self._loaded, name)


_library = _Library()


def __getattr__(name):
    if name == "version":
        return _library.heddle_version_string().decode()
    raise AttributeError(name)


def _check(status):
    if status:
        raise Error(STATUSES[status] if 0 <= status < len(STATUSES) else str(status), _library.heddle_error_message().decode())


def _ids(ids):
    try:
        values = array.array("i", ids)
    except OverflowError:
        raise Error("INVALID_INPUT", f"ids of 32 bits are expected, not {max(ids, key=abs)}") from None
    return (c_int32 * len(values)).from_buffer(values) if values else None


def _stops(stops):
    return (c_char_p * len(stops))(*[stop.encode() for stop in stops])


def _copied(call, kind):
    """The elements that `call(pointer, capacity, out_count)` gives: counted first, then copied."""
    count = c_size_t()
    _check(call(None, c_size_t(0), byref(count)))
    elements = (kind * count.value)()
    _check(call(elements, count, byref(count)))
    return elements


class _Guard:
    """What a callback raises is kept, since it cannot pass the library, and raised behind the call."""

    def __init__(self):
        self.error = None

    def wrap(self, kind, function, otherwise=None):
        def call(*arguments):
            try:
                return function(*arguments)
            except BaseException as error:  # also of Ctrl-C
                self.error = self.error or error
                return otherwise
        return kind(call)

    def check(self, status):
        if self.error:
            raise self.error
        _check(status)


class _Object:
    _destroy = None

    def __init__(self, create, *owners):
        self._object = c_void_p()
        self._owners = owners  # they are freed later
        _check(create(byref(self._object)))

    @property
    def _handle(self):
        if not self._object:
            raise Error("INVALID_INPUT", f"the {type(self).__name__} is closed")
        return self._object

    def close(self):
        """Frees the object, which no other one may use any more; once is enough."""
        if self._object:
            getattr(_library, self._destroy)(self._object)
        self._object = c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if hasattr(self, "_object"):
            self.close()


class ThreadPool(_Object):
    _destroy = "heddle_thread_pool_destroy"

    def __init__(self, threads=0):
        super().__init__(lambda out: _library.heddle_thread_pool_create(c_int32(threads), out))


class Package(_Object):
    _destroy = "heddle_package_close"

    def __init__(self, path, read_into_memory=False, log=None, cpu=None):
        """`log(is_warning, message)` hears what is no failure; `cpu` is one of the targets of a model for several, None: the best."""
        self._log = _LogCallback(lambda user, level, message: log(level == 1, message.decode()) if log else None)
        options = _OpenOptions(read_into_memory=read_into_memory, log=self._log, cpu=cpu.encode() if cpu else None)
        super().__init__(lambda out: _library.heddle_package_open_file(os.fsencode(path), byref(options), out))
        self.name = _library.heddle_package_name(self._handle).decode()
        self.task = TASKS[_library.heddle_package_task(self._handle)]
        self.vocab_size = _library.heddle_package_vocab_size(self._handle)
        self.hidden_size = _library.heddle_package_hidden_size(self._handle)
        self.context = _library.heddle_package_context(self._handle)
        self.functions = [_library.heddle_package_function_name(self._handle, c_size_t(i)).decode()
                          for i in range(_library.heddle_package_num_functions(self._handle))]

    def check(self):
        _check(_library.heddle_package_check(self._handle))

    def info(self):
        return bytes(_copied(lambda *out: _library.heddle_package_info(self._handle, *out), ctypes.c_char)).decode()

    def encode(self, text, plain=False):
        text = text.encode()
        return list(_copied(lambda *out: _library.heddle_package_encode(self._handle, text, c_size_t(len(text)), c_int(plain), *out), c_int32))

    def decode(self, ids):
        given = _ids(ids)
        return bytes(_copied(lambda *out: _library.heddle_package_decode(self._handle, given, c_size_t(len(ids)), *out), ctypes.c_char)).decode()

    def token_bytes(self, token):
        return bytes(_copied(lambda *out: _library.heddle_package_token_bytes(self._handle, c_int32(token), *out), ctypes.c_char))

    def special_token(self, name):
        """`name` is bos, eos, unknown or pad; None where there is none."""
        token = _library.heddle_package_special_token(self._handle, c_int(["bos", "eos", "unknown", "pad"].index(name)))
        return None if token < 0 else token

    def end_tokens(self):
        return list(_copied(lambda *out: _library.heddle_package_end_tokens(self._handle, *out), c_int32))

    def _chat(self, call, kind, messages, variables):
        text = json.dumps({"messages": messages, "add_generation_prompt": True, **variables}).encode()
        return _copied(lambda *out: call(self._handle, text, c_size_t(len(text)), *out), kind)

    def encode_chat(self, messages, **variables):
        """`messages`: [{"role": …, "content": …}]; `variables` of the template besides: tools, add_generation_prompt (True)."""
        return list(self._chat(_library.heddle_package_encode_chat, c_int32, messages, variables))

    def render_chat(self, messages, **variables):
        return bytes(self._chat(_library.heddle_package_render_chat, ctypes.c_char, messages, variables)).decode()

    def sampler_defaults(self):
        options = _SamplerOptions()
        _check(_library.heddle_package_sampler_defaults(self._handle, byref(options)))
        return {name: getattr(options, name) for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")}


class TextStream(_Object):
    _destroy = "heddle_text_stream_destroy"

    def __init__(self, package, stops=(), keep_special=False):
        options = _StreamOptions(keep_special=keep_special, num_stops=len(stops), stops=_stops(stops))
        super().__init__(lambda out: _library.heddle_text_stream_create(package._handle, byref(options), out), package)
        self.stopped = False

    def append(self, token):
        text, size, stopped = c_void_p(), c_size_t(), c_int()
        _check(_library.heddle_text_stream_append(self._handle, c_int32(token), byref(text), byref(size), byref(stopped)))
        self.stopped = stopped.value != 0
        return ctypes.string_at(text, size.value).decode()

    def finish(self):
        text, size = c_void_p(), c_size_t()
        _check(_library.heddle_text_stream_finish(self._handle, byref(text), byref(size)))
        return ctypes.string_at(text, size.value).decode()


class Sampler(_Object):
    _destroy = "heddle_sampler_destroy"

    def __init__(self, package, **options):
        """`options`: temperature, top_k, top_p, min_p, repetition_penalty, seed."""
        given = _SamplerOptions(**options)
        super().__init__(lambda out: _library.heddle_sampler_create(package._handle, byref(given), out), package)
        self._words = (package.vocab_size + 31) // 32

    def accept(self, ids):
        _check(_library.heddle_sampler_accept(self._handle, _ids(ids), c_size_t(len(ids))))

    def sample(self, logits, allowed=None):
        """`allowed`: the ids that may be picked; None: all."""
        mask = (c_uint32 * self._words)() if allowed is not None else None
        for token in allowed or ():
            mask[token // 32] |= 1 << token % 32
        picked = c_int32()
        values = (c_float * len(logits)).from_buffer_copy(logits)
        _check(_library.heddle_sampler_sample(self._handle, values, mask, byref(picked)))
        return picked.value


class Session(_Object):
    _destroy = "heddle_session_destroy"

    def __init__(self, package, threads=0, max_sequences=1, context=0, cache_tokens=0, keep_hidden=False, deterministic=False, device=None,
                 pool=None):
        options = _SessionOptions(threads=threads, max_sequences=max_sequences, context=context, cache_tokens=cache_tokens,
                                  keep_hidden=keep_hidden, deterministic=deterministic, device=device.encode() if device else None,
                                  pool=pool._handle if pool else None)
        super().__init__(lambda out: _library.heddle_session_create(package._handle, byref(options), out), package, pool)
        self.package = package
        self._progress = None

    def _feeds(self, feeds):
        made = (_Feed * len(feeds))()
        for at, feed in zip(made, feeds):
            at.size, at.sequence, at.count, at.ids = ctypes.sizeof(_Feed), feed.sequence, len(feed.ids), _ids(feed.ids)
            if feed.positions is not None:
                at.positions = _ids(feed.positions)
            at.rows = ["last", "none", "all"].index(feed.rows)
        return made, c_size_t(len(feeds))

    def _row(self, pointer, size):
        return array.array("f", ctypes.string_at(pointer, 4 * size)) if pointer else None

    def step(self, feeds):
        """Appends Feeds to their sequences; logits() and hidden_state() have the last row of each."""
        _check(_library.heddle_session_step(self._handle, *self._feeds(feeds)))

    def encode(self, feeds):
        """Of an encoder-decoder: the ids of each Feed become the source of its sequence."""
        _check(_library.heddle_session_encode(self._handle, *self._feeds(feeds)))

    def forward(self, feeds):
        """Appends Feeds and returns the Rows that they ask for, in order within a feed."""
        rows, guard = [], _Guard()
        take = guard.wrap(_RowCallback, lambda user, feed, token, logits, hidden: rows.append(
            Row(feed, token, self._row(logits, self.package.vocab_size), self._row(hidden, self.package.hidden_size))))
        guard.check(_library.heddle_session_forward(self._handle, *self._feeds(feeds), take, None))
        return rows

    def append(self, ids, sequence=0):
        self.step([Feed(sequence, ids)])

    def logits(self, feed=0):
        return self._row(_library.heddle_session_logits(self._handle, c_size_t(feed)), self.package.vocab_size)

    def hidden_state(self, feed=0):
        return self._row(_library.heddle_session_hidden_state(self._handle, c_size_t(feed)), self.package.hidden_size)

    def length(self, sequence=0):
        return _library.heddle_session_length(self._handle, c_int32(sequence))

    def history(self, sequence=0):
        return list(_copied(lambda *out: _library.heddle_session_history(self._handle, c_int32(sequence), *out), c_int32))

    def give(self, rows, count):
        """Keeps (count, hidden_size) floats that a function of the model computed, of an image: the id of the first, for feeds and prompts."""
        first = c_int32()
        given = (c_float * len(rows)).from_buffer_copy(array.array("f", rows))
        _check(_library.heddle_session_give(self._handle, given, c_int64(count), byref(first)))
        return first.value

    def truncate(self, length, sequence=0):
        _check(_library.heddle_session_truncate(self._handle, c_int32(sequence), c_int64(length)))

    def fork(self, source, target):
        _check(_library.heddle_session_fork(self._handle, c_int32(source), c_int32(target)))

    def cancel(self):
        """Ends the call that runs, or else the next, with CANCELLED; from any thread."""
        _library.heddle_session_cancel(self._handle)

    def on_progress(self, progress):
        """`progress(done, total)` is called after each chunk of a prompt; true cancels. None: nothing is called."""
        made = _ProgressCallback(lambda user, done, total: int(bool(progress(done, total)))) if progress else _ProgressCallback()
        _check(_library.heddle_session_set_progress(self._handle, made, None))
        self._progress = made

    def generate(self, ids, sequence=0, max_tokens=0, ignore_eos=False, stops=(), on_token=None, allowed=None, **sampler):
        """Appends `ids` and generates an Answer. `on_token(id, text)` hears each token, and text that was held back with id None; true ends
        the answer. `allowed(ids)` gives the ids that may come next, or None for all. `sampler`: see Sampler."""
        made, text, guard = [], [], _Guard()

        def take(user, token, data, size):
            piece = ctypes.string_at(data, size).decode() if size else ""
            text.append(piece)
            if token >= 0:
                made.append(token)
            return int(bool(on_token and on_token(token if token >= 0 else None, piece)))

        def mask(user, history, count, words):
            if (tokens := allowed(history[:count])) is not None:
                ctypes.memset(words, 0, (self.package.vocab_size + 31) // 32 * 4)
                for token in tokens:
                    words[token // 32] |= 1 << token % 32

        options = _GenerateOptions(max_tokens=max_tokens, ignore_eos=ignore_eos, num_stops=len(stops), stops=_stops(stops),
                                   sampler=ctypes.pointer(_SamplerOptions(**sampler)))
        if allowed:
            options.mask = guard.wrap(_MaskCallback, mask)
        result = _GenerateResult()
        guard.check(_library.heddle_session_generate(self._handle, c_int32(sequence), _ids(ids), c_size_t(len(ids)), byref(options),
                                                     guard.wrap(_TokenCallback, take, 1), None, byref(result)))
        return Answer(made, "".join(text), END_REASONS[result.reason])

    def search_beams(self, ids, beams, max_tokens, returned=1, length_penalty=1.0, repetition_penalty=1.0, early_stopping=False,
                     ignore_eos=False):
        """The best Beams of a search in sequences [0, beams), which are reset."""
        found, guard = [], _Guard()
        take = guard.wrap(_BeamCallback, lambda user, tokens, count, score: found.append(Beam(tokens[:count], score)))
        options = _BeamOptions(beams=beams, returned=returned, max_tokens=max_tokens, length_penalty=length_penalty,
                               repetition_penalty=repetition_penalty, early_stopping=early_stopping, ignore_eos=ignore_eos)
        guard.check(_library.heddle_session_search_beams(self._handle, _ids(ids), c_size_t(len(ids)), byref(options), take, None))
        return found


class Function(_Object):
    _destroy = "heddle_function_destroy"

    def __init__(self, package, name=None, threads=0, pool=None):
        options = _FunctionOptions(name=name.encode() if name else None, threads=threads, pool=pool._handle if pool else None)
        super().__init__(lambda out: _library.heddle_function_create(package._handle, byref(options), out), package, pool)
        self.inputs = self._declared(_library.heddle_function_num_inputs, _library.heddle_function_input)
        self.outputs = self._declared(_library.heddle_function_num_outputs, _library.heddle_function_output)

    def _declared(self, count, describe):
        declared = []
        for index in range(count(self._handle)):
            info = _TensorInfo()
            _check(describe(self._handle, c_size_t(index), byref(info)))
            declared.append(TensorInfo(info.name.decode(), TYPES[info.type], info.shape[:info.rank],
                                       [name.decode() for name in info.dimensions[:info.rank]]))
        return declared

    def __call__(self, **inputs):
        """Named Tensors in, named Tensors out, whose data are bytes."""
        made, kept = (_Tensor * len(inputs))(), []
        for at, (name, tensor) in zip(made, inputs.items()):
            data = bytes(memoryview(tensor.data).cast("B"))
            kept.append(data)
            at.size, at.name, at.type = ctypes.sizeof(_Tensor), name.encode(), TYPES.index(tensor.type)
            at.rank, at.shape = len(tensor.shape), (c_int64 * len(tensor.shape))(*tensor.shape)
            at.data = ctypes.cast(c_char_p(data), c_void_p)
        _check(_library.heddle_function_call(self._handle, made, c_size_t(len(inputs))))
        results = {}
        for index in range(len(self.outputs)):
            tensor = _library.heddle_function_result(self._handle, c_size_t(index)).contents
            shape, size = tensor.shape[:tensor.rank], SIZES[tensor.type]
            for dimension in shape:
                size *= dimension
            results[tensor.name.decode()] = Tensor(TYPES[tensor.type], shape, ctypes.string_at(tensor.data, size) if size else b"")
        return results
