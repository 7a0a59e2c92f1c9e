// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lines of a chat. On a terminal they are edited, and earlier ones recalled, by the line editor that the machine has: a binary
// starts without one, so libedit or GNU Readline is opened when a chat begins. Where there is none, the terminal's own lines do.
#ifndef HEDDLE_RUNTIME_CLI_LINEREADER_H
#define HEDDLE_RUNTIME_CLI_LINEREADER_H

#include "runtime/cli/Cli.h"

namespace heddle {

enum class LineEnd {
  Newline,
  Cancelled, // Ctrl-C after a key
  Input,     // nothing follows: the end of the input, or Ctrl-C before any key
};

class LineReader {
public:
  LineReader(const OpenedModel &program, bool isTerminal) : program(program), isTerminal(isTerminal) {}
  LineReader(const LineReader &) = delete;
  LineReader &operator=(const LineReader &) = delete;
  ~LineReader();

  // Opens the line editor and the file that $HEDDLE_HISTORY names. That there is no editor is no failure.
  Status open();
  // A line without its newline. `prompt` is shown on a terminal only.
  Status read(const char *prompt, std::string &line, LineEnd &outEnd);
  bool isEditing() const { return editorName != nullptr; }
  // What /help says of how lines are read.
  std::string help() const;

private:
  Status openHistory(const char *path);
  Status edit(const char *prompt, std::string &line, LineEnd &outEnd);
  void remember(const std::string &line);

  const OpenedModel &program;
  const bool isTerminal;
  const char *editorName = nullptr; // null: lines are plain
  const char *whyPlain = "";
  std::string historyPath;
  int historyFile = -1; // lines are appended; -1: they are kept in memory alone
};

} // namespace heddle

#endif
