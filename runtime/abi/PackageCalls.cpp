// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opening a model and asking what it is.
#include "runtime/abi/Calls.h"

#include "runtime/model/PackageFile.h"

using namespace heddle;
using namespace heddle::abi;

namespace {

Status readOpenOptions(const heddle_open_options *options, OpenOptions &out, heddle_package::LogTarget &outLog) {
  heddle_open_options given;
  HEDDLE_RETURN_IF_ERROR(copyOptions("heddle_open_options", options, given));
  if (given.reserved)
    return invalidInput("heddle_open_options: reserved is not 0");
  out.memory = given.read_into_memory ? FileMemory::Copied : FileMemory::Mapped;
  outLog = {given.log, given.log_user};
  out.cpu = given.cpu ? given.cpu : "";
  return Status();
}

// `open` is Package::open or openFile of an argument.
template <typename Open>
heddle_status openPackage(const heddle_open_options *options, const Open &open, heddle_package **out) {
  OpenOptions given;
  heddle_package::LogTarget log;
  if (Status status = readOpenOptions(options, given, log); !status.isOk())
    return report(status);
  return runInMemoryOrReport([&]() -> Status {
    std::unique_ptr<heddle_package> opened(new heddle_package);
    opened->log = log;
    if (log.log) {
      given.log = {[](void *user, Log::Level level, const char *message) {
                     auto &target = *static_cast<heddle_package::LogTarget *>(user);
                     target.log(target.user, level == Log::Warning ? HEDDLE_LOG_WARNING : HEDDLE_LOG_INFO, message);
                   },
                   &opened->log};
    }
    HEDDLE_RETURN_IF_ERROR(open(given, opened->package));
    const Package &package = *opened->package;
    const package::Tokenizer *table = package.metadata().tokenizer();
    std::string error;
    if (table && table->model() != package::TokenizerModel::None) {
      opened->tokenizer = Tokenizer::create(*table, error);
      if (!opened->tokenizer)
        return Status::failure(package.path() + ": " + error);
    }
    if (opened->tokenizer && table->chat_template() && table->chat_template()->size()) {
      opened->chatTemplate = ChatTemplate::parse(table->chat_template()->string_view(), error);
      if (!opened->chatTemplate)
        return Status::failure(package.path() + ": " + error);
    }
    *out = opened.release();
    return Status();
  });
}

} // namespace

heddle_status heddle_package_open(const heddle_model *model, const heddle_open_options *options,
                                  heddle_package **out_package) {
  if (Status status = checkNotNull({{"model", model}, {"out_package", out_package}}); !status.isOk())
    return report(status);
  return openPackage(
      options,
      [&](const OpenOptions &given, std::unique_ptr<Package> &package) { return Package::open(model, given, package); },
      out_package);
}

heddle_status heddle_package_open_file(const char *path, const heddle_open_options *options,
                                       heddle_package **out_package) {
  if (Status status = checkNotNull({{"path", path}, {"out_package", out_package}}); !status.isOk())
    return report(status);
  return openPackage(
      options,
      [&](const OpenOptions &given, std::unique_ptr<Package> &package) {
        return Package::openFile(path, nullptr, given, package);
      },
      out_package);
}

heddle_status heddle_package_check(const heddle_package *package) {
  Status status = checkNotNull({{"package", package}});
  return report(status.isOk() ? package->package->check() : status);
}

void heddle_package_close(heddle_package *package) {
  delete package;
}

heddle_task heddle_package_task(const heddle_package *package) {
  return package ? heddle_task(package->package->metadata().task()) : HEDDLE_TASK_GENERATE;
}
const char *heddle_package_name(const heddle_package *package) {
  return package ? package->package->metadata().name()->c_str() : nullptr;
}
int64_t heddle_package_vocab_size(const heddle_package *package) {
  return package ? package->package->metadata().vocab_size() : 0;
}
int64_t heddle_package_hidden_size(const heddle_package *package) {
  return package ? package->package->metadata().hidden_size() : 0;
}
int64_t heddle_package_context(const heddle_package *package) {
  return package ? package->package->metadata().context() : 0;
}

heddle_status heddle_package_info(const heddle_package *package, char *text, size_t capacity, size_t *out_size) {
  Status valid = checkNotNull({{"package", package}, array("text", text, capacity), {"out_size", out_size}});
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&] {
    std::string info = packageText(package->package->onDisk());
    copyOut(info.data(), info.size(), text, capacity, out_size);
    return Status();
  });
}
