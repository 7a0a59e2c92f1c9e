// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both editors have the interface of GNU Readline. Their keys come from a function of ours, because neither lets Ctrl-C end a line
// unless its own handlers run, which libedit's do by a signal to the whole process group. So the editors handle no signal, and that
// function sees to what a signal may mean: Ctrl-C, a window of another size, or that the process goes on after Ctrl-Z.
#include "runtime/cli/LineReader.h"

#include "bytes/MappedFile.h"
#include "bytes/Utf8.h"
#include "runtime/device/DynamicLibrary.h"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

namespace heddle {
namespace {

// What is used of the interface, as (type, name): functions, and the addresses of variables.
#define HEDDLE_EDITOR_SYMBOLS(F)                                                                                       \
  F(char *(*)(const char *), readline)                                                                                 \
  F(void (*)(const char *), add_history)                                                                               \
  F(void (*)(), using_history)                                                                                         \
  F(int (*)(int, int (*)(int, int)), rl_bind_key)                                                                      \
  F(int (*)(int, int), rl_insert)                                                                                      \
  F(void (*)(int), rl_prep_terminal)                                                                                   \
  F(void (*)(), rl_deprep_terminal)                                                                                    \
  F(void (*)(), rl_resize_terminal)                                                                                    \
  F(int (*)(), rl_forced_update_display)                                                                               \
  F(int (**)(FILE *), rl_getc_function)                                                                                \
  F(int *, rl_catch_signals)                                                                                           \
  F(int *, rl_catch_sigwinch)

template <typename Type> using Member = Type;

// One for the process, as the libraries have it: their callbacks take no argument of the caller's.
struct Editor {
#define HEDDLE_MEMBER(type, name) Member<type> name;
  HEDDLE_EDITOR_SYMBOLS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER
  bool takesCharacters;    // libedit takes whole characters for keys, GNU Readline bytes
  int heldByte;            // read, and not a part of the character before it; -1: none
  unsigned char queued[4]; // bytes of a character that the editor has not taken yet
  int numQueued, nextQueued;
  size_t numKeys;     // of this line
  bool hasBadBytes;   // in this line
  bool isInterrupted; // this line is
  int signals[2];     // a pipe of the signals that came while a line is read
} editor;

Status loadEditor(const char *name) {
  DynamicLibrary library;
  HEDDLE_RETURN_IF_ERROR(library.open(name, "no line editor"));
#define HEDDLE_LOAD(type, name) HEDDLE_RETURN_IF_ERROR(library.load(#name, editor.name));
  HEDDLE_EDITOR_SYMBOLS(HEDDLE_LOAD)
#undef HEDDLE_LOAD
  return Status();
}

// Editors take characters and their widths from the locale. Messages are UTF-8 in every locale.
bool setUtf8Locale() {
  return setlocale(LC_CTYPE, "C.UTF-8") || (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
}

// Any thread may run it, at any time: what it means waits in a pipe until a key is read.
void onSignal(int signal) {
  int savedErrno = errno;
  char byte = char(signal);
  (void)!write(editor.signals[1], &byte, 1);
  errno = savedErrno;
}

// Takes signals while a line is read.
class SignalsOfLine {
public:
  SignalsOfLine() {
    struct sigaction action = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_RESTART; // a write of the editor is not cut short
    for (size_t i = 0; i < std::size(taken); ++i)
      sigaction(taken[i], &action, &before[i]);
  }
  ~SignalsOfLine() {
    for (size_t i = 0; i < std::size(taken); ++i)
      sigaction(taken[i], &before[i], nullptr);
  }

private:
  static constexpr int taken[] = {SIGINT, SIGWINCH, SIGCONT};
  struct sigaction before[std::size(taken)];
};

// -1 at the end of the input and on Ctrl-C.
int readByte() {
  while (!editor.isInterrupted && !wasInterrupted()) {
    pollfd files[] = {{STDIN_FILENO, POLLIN, 0}, {editor.signals[0], POLLIN, 0}};
    if (poll(files, std::size(files), -1) < 0 && errno != EINTR)
      return -1;
    unsigned char byte;
    if (read(editor.signals[0], &byte, 1) == 1) {
      editor.isInterrupted = byte == SIGINT;
      if (editor.isInterrupted)
        return -1;
      editor.rl_deprep_terminal(); // after Ctrl-Z it has the shell's modes
      editor.rl_prep_terminal(1);
      editor.rl_resize_terminal();
      editor.rl_forced_update_display();
    } else if (files[0].revents) {
      ssize_t count = read(STDIN_FILENO, &byte, 1);
      if (count == 1)
        return byte;
      if (count == 0 || errno != EINTR)
        return -1;
    }
  }
  return -1;
}

// The bytes of a character, of U+FFFD if a byte is no part of one: the editors would drop it without a word. None at the end.
std::string readCharacter(int lead) {
  std::string text(1, char(lead));
  for (size_t length = utf8AnnouncedLength(text[0]); text.size() < length;) {
    int next = readByte();
    if (next < 0)
      return {};
    text += char(next);
    if (utf8PrefixLength(text, 0) == text.size())
      continue;
    editor.heldByte = next;
    text.pop_back();
    break;
  }
  if (utf8SequenceLength(text, 0) == text.size())
    return text;
  editor.hasBadBytes = true;
  return "\xEF\xBF\xBD";
}

int readKey(FILE *) {
  if (editor.nextQueued < editor.numQueued)
    return editor.queued[editor.nextQueued++];
  int byte = editor.heldByte >= 0 ? editor.heldByte : readByte();
  editor.heldByte = -1;
  if (byte < 0)
    return EOF;
  ++editor.numKeys;
  std::string text = readCharacter(byte);
  if (text.empty())
    return EOF;
  size_t position = 0;
  if (editor.takesCharacters)
    return int(nextCharacter(text, position));
  memcpy(editor.queued, text.data(), text.size());
  editor.numQueued = int(text.size());
  editor.nextQueued = 1;
  return editor.queued[0];
}

// Returns once a terminal has a line or Ctrl-C was pressed: a read that has not begun yet would miss the signal, and any thread may have taken it.
// A terminal gives one line at a time, so none waits in stdin's buffer.
void waitForLine() {
  constexpr int milliseconds = 100;
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  while (!wasInterrupted())
    if (int ready = poll(&input, 1, milliseconds); ready > 0 || (ready < 0 && errno != EINTR))
      return;
}

// Of a line that is too long the rest is skipped.
Status readPlain(std::string &line, LineEnd &outEnd) {
  line.clear();
  size_t size = 0;
  int c;
  for (; (c = getchar()) != EOF && c != '\n'; ++size)
    if (size < Tokenizer::maxText)
      line += char(c);
  outEnd = c == '\n' || (size > 0 && !wasInterrupted()) ? LineEnd::Newline : LineEnd::Input;
  if (ferror(stdin) && !wasInterrupted())
    return Status::failure(std::string("standard input: ") + strerror(errno));
  if (size > Tokenizer::maxText)
    return invalidInput(format("standard input: a line of more than %zu bytes", Tokenizer::maxText));
  return Status();
}

constexpr size_t mostHistory = 1 << 20; // bytes of a history's end that are read

} // namespace

LineReader::~LineReader() {
  if (historyFile >= 0)
    close(historyFile);
}

Status LineReader::open() {
  const char *terminal = getenv("TERM"), *path = getenv("HEDDLE_HISTORY");
  if (!isTerminal)
    whyPlain = "they are typed on no terminal";
  else if (program.options.plainLines)
    whyPlain = "--plain-lines";
  else if (!terminal || !*terminal || strcmp(terminal, "dumb") == 0)
    whyPlain = "$TERM names no terminal that can move its cursor";
  else if (!setUtf8Locale())
    whyPlain = "this machine has no UTF-8 locale";
  else if (loadEditor("libedit.so.2").isOk())
    editorName = "libedit";
  else if (loadEditor("libreadline.so.8").isOk())
    editorName = "GNU Readline";
  else
    whyPlain = "neither libedit.so.2 nor libreadline.so.8 is on this machine";
  if (!isEditing())
    return Status();
  if (pipe2(editor.signals, O_CLOEXEC | O_NONBLOCK) != 0)
    return Status::failure(std::string("a pipe for signals: ") + strerror(errno));
  editor.takesCharacters = strcmp(editorName, "libedit") == 0;
  editor.heldByte = -1;
  *editor.rl_getc_function = readKey;
  *editor.rl_catch_signals = *editor.rl_catch_sigwinch = 0;
  editor.using_history();
  editor.rl_bind_key('\t', editor.rl_insert); // else it completes names of files
  return path && *path ? openHistory(path) : Status();
}

Status LineReader::openHistory(const char *path) {
  historyPath = path;
  const std::string name = "$HEDDLE_HISTORY: " + historyPath;
  historyFile = ::open(path, O_RDWR | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0600);
  int copy = historyFile < 0 ? -1 : fcntl(historyFile, F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    return invalidInput(name + ": " + strerror(errno));
  MappedFile file;
  HEDDLE_RETURN_IF_ERROR(file.map(copy, name));
  std::string_view text = file.text();
  if (text.size() > mostHistory) {
    text.remove_prefix(text.size() - mostHistory);
    text.remove_prefix(std::min(text.find('\n'), text.size())); // the rest of a line
  }
  while (!text.empty()) {
    std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && isUtf8(line) && line.find('\0') == line.npos)
      editor.add_history(line.c_str());
  }
  return Status();
}

Status LineReader::read(const char *prompt, std::string &line, LineEnd &outEnd) {
  if (isEditing())
    return edit(prompt, line, outEnd);
  if (isTerminal) {
    HEDDLE_RETURN_IF_ERROR(writeOut(prompt));
    waitForLine();
  }
  if (wasInterrupted()) {
    line.clear();
    outEnd = LineEnd::Input;
    return Status();
  }
  return readPlain(line, outEnd);
}

Status LineReader::edit(const char *prompt, std::string &line, LineEnd &outEnd) {
  editor.numKeys = 0;
  editor.hasBadBytes = editor.isInterrupted = false;
  char *text;
  {
    SignalsOfLine signals;
    text = editor.readline(prompt);
  }
  if (editor.isInterrupted)
    raise(SIGINT); // to the program's handler, which wasInterrupted() asks
  line = text ? text : "";
  free(text);
  if (wasInterrupted()) {
    outEnd = editor.numKeys ? LineEnd::Cancelled : LineEnd::Input;
    return writeOut("\n");
  }
  outEnd = text ? LineEnd::Newline : LineEnd::Input;
  if (line.size() > Tokenizer::maxText)
    return invalidInput(format("standard input: a line of more than %zu bytes", Tokenizer::maxText));
  if (editor.hasBadBytes || !isUtf8(line))
    return invalidInput("the message is not UTF-8");
  if (!line.empty())
    remember(line);
  return Status();
}

void LineReader::remember(const std::string &line) {
  editor.add_history(line.c_str());
  const std::string entry = line + "\n";
  if (historyFile < 0 || write(historyFile, entry.data(), entry.size()) == ssize_t(entry.size()))
    return;
  program.note("$HEDDLE_HISTORY: " + historyPath + ": " + strerror(errno) +
               "; lines are kept in memory alone from here on");
  close(historyFile);
  historyFile = -1;
}

std::string LineReader::help() const {
  if (!isEditing())
    return std::string("Lines are plain: ") + whyPlain + ".\n";
  return std::string("Lines are edited by ") + editorName + ": the up arrow recalls earlier ones, " +
         (historyFile < 0 ? "of this chat ($HEDDLE_HISTORY may name a file that keeps them)"
                          : "also of " + historyPath) +
         ".\n";
}

} // namespace heddle
