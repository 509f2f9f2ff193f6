// Communicators: start, end, errors.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/forks.h"
#include "base/log.h"
#include "runtime/capi/call_group.h"
#include "runtime/capi/entry.h"
#include "runtime/capi/handles.h"
#include "runtime/start/comm_split.h"
#include "runtime/start/comm_start.h"
#include "runtime/start/load_settings.h"
#include "transports/bootstrap/launcher.h"

namespace gradwire {
namespace {

gwComm_t MakeHandle(std::unique_ptr<Communicator> made, const Settings& settings) {
  auto handle = std::make_unique<gwComm>();
  handle->settings = settings;
  handle->forks = ForkGeneration();
  handle->comm = std::move(made);
  return handle.release();
}

// Null: the caller gave none.
const char* TextOf(const gwConfig_t* config) {
  return config != nullptr && config->size >= sizeof(gwConfig_t) ? config->settings : nullptr;
}

// `rank` is this process's where it is known, else -1: there is no communicator to tell it.
template <typename StartFunction>
gwResult_t StartComm(gwComm_t* comm, const gwConfig_t* config, int rank, StartFunction start,
                     const char* caller = __builtin_FUNCTION()) {
  const auto report = [rank, caller](Status why) {
    return Report(nullptr, std::move(why).WithRank(rank), caller);
  };
  if (comm == nullptr) return report(Status(gwInvalidArgument, "comm is null"));
  if (Status s = CheckConfig(config, "GW_CONFIG_INITIALIZER"); !s.ok()) return report(std::move(s));
  const char* const text = TextOf(config);
  const Environment environment = ProcessEnvironment();
  StatusOr<Settings> settings = LoadSettings(text == nullptr ? "" : text, environment);
  if (!settings.ok()) return report(settings.status());
  StatusOr<std::unique_ptr<Communicator>> made = start(environment, *settings);
  if (!made.ok()) return report(settings->Explain(made.status()));
  *comm = MakeHandle(std::move(*made), *settings);
  return gwSuccess;
}

UniqueId FromPublic(const gwUniqueId& id) {
  UniqueId bytes;
  static_assert(sizeof(bytes) == sizeof(id.internal));
  std::memcpy(bytes.data(), id.internal, sizeof(id.internal));
  return bytes;
}

gwResult_t StartWithId(gwComm_t* comm, int nranks, const gwUniqueId& id, int rank,
                       const gwConfig_t* config, const char* caller = __builtin_FUNCTION()) {
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return Report(nullptr,
                  Status(gwInvalidArgument, "rank must be in [0, nranks), and nranks at least 1"),
                  caller);
  }
  const auto start = [&](const Environment&, const Settings& settings) {
    return StartByUniqueId(FromPublic(id), rank, nranks, settings);
  };
  return StartComm(comm, config, rank, start, caller);
}

// While it lives the communicator is not destroyed.
class Aborting {
 public:
  explicit Aborting(gwComm_t comm) : comm_(comm) { ++comm_->aborting; }
  ~Aborting() { --comm_->aborting; }
  Aborting(const Aborting&) = delete;
  Aborting& operator=(const Aborting&) = delete;

 private:
  gwComm_t const comm_;
};

// What this rank brings to a split. A wrong argument too: the other ranks are told.
struct SplitCall {
  int color;
  gwComm_t* newcomm;
  const gwConfig_t* config;
};
Status CheckSplit(const SplitCall& call, Settings* settings) {
  if (ThreadGroup::Current().open())
    return Status(gwInvalidUsage, "a group of calls is open", "Call gwGroupEnd first");
  if (call.newcomm == nullptr) return Status(gwInvalidArgument, "newcomm is null");
  if (call.color < 0 && call.color != GW_SPLIT_NOCOLOR) {
    return Status(gwInvalidArgument, fmt::format("the color {} is negative", call.color),
                  "Use GW_SPLIT_NOCOLOR for a rank that joins no group");
  }
  GW_RETURN_IF_ERROR(CheckConfig(call.config, "GW_CONFIG_INITIALIZER"));
  if (call.config == nullptr) return Status();
  const char* const text = TextOf(call.config);
  StatusOr<Settings> own = LoadSettings(text == nullptr ? "" : text, ProcessEnvironment());
  if (own.ok()) *settings = std::move(*own);
  return own.status();
}

}  // namespace

GW_DEFINE(gwResult_t, gwGetVersion, (int* version), (version)) {
  if (version == nullptr) return Report(nullptr, Status(gwInvalidArgument, "version is null"));
  *version = GW_VERSION_CODE;
  return gwSuccess;
}

GW_DEFINE(const char*, gwGetErrorString, (gwResult_t result), (result)) {
  return ResultText(result);
}

GW_DEFINE(const char*, gwGetLastError, (gwComm_t comm), (comm)) {
  // Copies: the next error would change what the caller still reads. One of each kind, for callers
  // that print both at once.
  thread_local std::string of_comm, of_thread;
  std::string& copy = HandleFor(comm) == nullptr ? of_thread : of_comm;
  return (copy = LastError(comm)).c_str();
}

GW_DEFINE(gwResult_t, gwSetLogCallback, (gwLogCallback_t callback, void* user), (callback, user)) {
  SetLogCallback(callback, user);
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwGetUniqueId, (gwUniqueId * id), (id)) {
  if (id == nullptr) return Report(nullptr, Status(gwInvalidArgument, "id is null"));
  StatusOr<Settings> settings = LoadSettings("", ProcessEnvironment());
  if (!settings.ok()) return Report(nullptr, settings.status());
  StatusOr<UniqueId> made = CreateUniqueId(
      {.interface = settings->Text("interface"), .port = static_cast<int>(settings->Int("port"))});
  if (!made.ok()) return Report(nullptr, settings->Explain(made.status()));
  std::memcpy(id->internal, made->data(), sizeof(id->internal));
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwCommInitRank, (gwComm_t * comm, int nranks, gwUniqueId id, int rank),
          (comm, nranks, id, rank)) {
  return StartWithId(comm, nranks, id, rank, nullptr);
}

GW_DEFINE(gwResult_t, gwCommInitRankConfig,
          (gwComm_t * comm, int nranks, gwUniqueId id, int rank, const gwConfig_t* config),
          (comm, nranks, id, rank, config)) {
  return StartWithId(comm, nranks, id, rank, config);
}

GW_DEFINE(gwResult_t, gwCommInitEnv, (gwComm_t * comm, const gwConfig_t* config), (comm, config)) {
  const auto start = [](const Environment& environment, const Settings& settings) {
    return StartByEnvironment(environment, settings);
  };
  return StartComm(comm, config, LaunchedRank(ProcessEnvironment()), start);
}

GW_DEFINE(gwResult_t, gwCommSplit,
          (gwComm_t comm, int color, int key, gwComm_t* newcomm, const gwConfig_t* config),
          (comm, color, key, newcomm, config)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  Settings settings = comm->settings;
  SplitPart mine = {.key = key, .settings = &settings};
  if (color != GW_SPLIT_NOCOLOR) mine.color = color;
  mine.refused = CheckUngrouped(comm);
  if (mine.refused.ok()) mine.refused = CheckSplit({color, newcomm, config}, &settings);
  StatusOr<std::unique_ptr<Communicator>> made = Split(*comm->comm, mine);
  if (!made.ok()) return Report(comm, settings.Explain(made.status()));
  *newcomm = *made == nullptr ? nullptr : MakeHandle(std::move(*made), settings);
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwCommFinalize, (gwComm_t comm), (comm)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  if (Status s = CheckUngrouped(comm); !s.ok()) return Report(comm, std::move(s));
  return Report(comm, comm->comm->Finalize());
}

GW_DEFINE(gwResult_t, gwCommDestroy, (gwComm_t comm), (comm)) {
  if (comm == nullptr) return gwSuccess;
  {
    CallGuard guard(comm);
    if (!guard.ok()) return guard.Refuse();
    if (Status s = CheckUngrouped(comm); !s.ok()) return Report(comm, std::move(s));
  }
  // What another thread has aborted may return from its call before that thread does; it does not
  // take long.
  while (comm->aborting.load() > 0) std::this_thread::yield();
  delete comm;
  return gwSuccess;
}

// From any thread, also while another one is in a call: no guard.
GW_DEFINE(gwResult_t, gwCommAbort, (gwComm_t comm), (comm)) {
  if (Status s = CheckAnyThread(comm); !s.ok()) return Report(nullptr, std::move(s));
  const Aborting aborting(comm);
  comm->comm->Abort();
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwCommGetAsyncError, (gwComm_t comm, gwResult_t* error), (comm, error)) {
  if (Status s = CheckAnyThread(comm); !s.ok()) return Report(nullptr, std::move(s));
  if (error == nullptr) return Report(comm, Status(gwInvalidArgument, "error is null"));
  *error = comm->comm->async_error().code();
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwCommCount, (gwComm_t comm, int* count), (comm, count)) {
  if (Status s = CheckAnyThread(comm); !s.ok()) return Report(nullptr, std::move(s));
  if (count == nullptr) return Report(comm, Status(gwInvalidArgument, "count is null"));
  *count = comm->comm->world_size();
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwCommUserRank, (gwComm_t comm, int* rank), (comm, rank)) {
  if (Status s = CheckAnyThread(comm); !s.ok()) return Report(nullptr, std::move(s));
  if (rank == nullptr) return Report(comm, Status(gwInvalidArgument, "rank is null"));
  *rank = comm->comm->rank();
  return gwSuccess;
}

}  // namespace gradwire
