#include "transports/ucx/ucx_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <strings.h>

#include <array>
#include <string_view>

#include "base/log.h"

namespace gradwire {
namespace {

constexpr unsigned kOldestMajor = 1, kOldestMinor = 13;

// UCX's constructor takes these (UCX_ERROR_SIGNALS, and for debugging UCX_DEBUG_SIGNO, by default
// SIGHUP); a library inside somebody's program must not.
// Setting the variable would change the environment of a process with threads, so the handlers are
// put back instead.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~SignalKeeper() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr std::array kSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_;
};

// UCX warns about settings of transports that are not in use; ours always are such. These two
// functions of libucs are not in its public headers, so they may be missing.
void QuietLog(void* handle) {
  using GetValue = ucs_status_t (*)(const char* name, char* value, size_t max);
  using SetValue = ucs_status_t (*)(const char* name, const char* value);
  const auto get = reinterpret_cast<GetValue>(dlsym(handle, "ucs_global_opts_get_value"));
  const auto set = reinterpret_cast<SetValue>(dlsym(handle, "ucs_global_opts_set_value"));
  char level[32] = "";
  if (get == nullptr || set == nullptr) return;
  const bool untouched =
      get("LOG_LEVEL", level, sizeof level) == UCS_OK && strcasecmp(level, "warn") == 0;
  if (untouched && set("LOG_LEVEL", "error") != UCS_OK) {
    GW_LOG(kInfo, kNet, "ucx: its log level stays {}", level);
  }
}

Status Unavailable(std::string message) {
  return Status(gwTransportUnavailable, std::move(message),
                "Install UCX 1.13 or newer (apt-get install libucx0), or name another transport");
}

void* OpenLibrary(const char* library) {
  // Somebody else's UCX (an MPI's) is used as it is: its log and signals are theirs.
  if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  SignalKeeper keep_signals;
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) QuietLog(handle);
  return handle;
}

}  // namespace

std::string UcxApi::version() const { return fmt::format("{}.{}.{}", major, minor, patch); }

StatusOr<UcxApi> OpenUcx(const char* library) {
  void* handle = OpenLibrary(library);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Unavailable(fmt::format("ucx: {}", why == nullptr ? library : why));
  }
  UcxApi api;
  const char* missing = nullptr;
#define GRADWIRE_UCX_LOOK_UP(name)                                       \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, #name)); \
  if (api.name == nullptr && missing == nullptr) missing = #name;
  GRADWIRE_UCX_FUNCTIONS(GRADWIRE_UCX_LOOK_UP)
#undef GRADWIRE_UCX_LOOK_UP
  if (api.ucp_get_version != nullptr) api.ucp_get_version(&api.major, &api.minor, &api.patch);
  if (missing != nullptr) {
    return Unavailable(fmt::format("ucx: {} {} has no {}", library, api.version(), missing));
  }
  const bool too_old =
      api.major != kOldestMajor || (api.major == kOldestMajor && api.minor < kOldestMinor);
  if (too_old) {
    return Unavailable(fmt::format("ucx: {} is version {}, needed is {}.{} or a later {}.x",
                                   library, api.version(), kOldestMajor, kOldestMinor,
                                   kOldestMajor));
  }
  return api;
}

StatusOr<const UcxApi*> LoadUcx() {
  static const StatusOr<UcxApi> loaded = OpenUcx(kUcxLibrary);
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

// A file that is found is called by its whole path, and one that it needs and lacks by that one's
// name.
bool LibraryIsThere(const char* library) {
  if (OpenLibrary(library) != nullptr) return true;
  const char* why = dlerror();
  return why != nullptr && !std::string_view(why).starts_with(std::string(library) + ':');
}

Status UcxError(const UcxApi& api, gwResult_t code, const std::string& what, ucs_status_t status) {
  return Status(code, fmt::format("ucx: {}: {}", what, api.ucs_status_string(status)));
}

}  // namespace gradwire

// LeakSanitizer asks for this by name; nothing else does. UCX 1.13 loses some of its own memory
// when a worker is destroyed.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libuct.so\nleak:libucp.so\nleak:libucs.so\nleak:libucm.so\n";
}
