#include "runtime/Cli.h"
namespace heddle { Status runChat(Program &) { return failure("unavailable"); } }
