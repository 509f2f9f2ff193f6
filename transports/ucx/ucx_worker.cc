#include "transports/ucx/ucx_worker.h"

#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"

namespace gradwire {
namespace {

// What `print` writes to the FILE* it is given.
template <typename Print>
std::string Captured(Print print) {
  char* text = nullptr;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  if (file == nullptr) return {};
  print(file);
  fclose(file);
  std::string result(text, size);
  free(text);
  return result;
}

class Config {
 public:
  explicit Config(const UcxApi& api) : api_(api) {}
  ~Config() {
    if (config_ != nullptr) api_.ucp_config_release(config_);
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  Status Read() {
    const ucs_status_t status = api_.ucp_config_read(nullptr, nullptr, &config_);
    if (status == UCS_OK) return Status::Ok();
    return UcxError(api_, gwTransportUnavailable, "its settings (UCX_* in the environment)",
                    status);
  }

  // UCX has no way to ask whether a setting was set, but it prints what is in effect.
  UcxUserSettings UserSettings() const {
    return ParseUcxSettings(Captured([&](FILE* file) {
      api_.ucp_config_print(config_, file, nullptr, UCS_CONFIG_PRINT_CONFIG);
    }));
  }

  Status Apply(const UcxPlan& plan) {
    for (const UcxSetting& setting : plan.settings) {
      ucs_status_t status = Modify(setting.name, setting.value);
      if (!setting.old_name.empty()) {
        const ucs_status_t old_status = Modify(setting.old_name, setting.value);
        if (status != UCS_OK) status = old_status;
      }
      if (status != UCS_OK) {
        return UcxError(api_, gwTransportUnavailable,
                        fmt::format("setting {}={}", setting.name, setting.value), status);
      }
      GW_LOG(kInfo, kNet, "ucx: {}={}", setting.name, setting.value);
    }
    return Status::Ok();
  }

  ucp_config_t* get() const { return config_; }

 private:
  ucs_status_t Modify(const std::string& name, const std::string& value) {
    return api_.ucp_config_modify(config_, name.c_str(), value.c_str());
  }

  const UcxApi& api_;
  ucp_config_t* config_ = nullptr;
};

Status OpenContext(const TransportOptions& options, UcxWorker* out) {
  Config config(*out->api);
  GW_RETURN_IF_ERROR(config.Read());
  StatusOr<UcxPlan> plan = PlanUcx(options, config.UserSettings(), UsableInterfaces());
  if (!plan.ok()) return plan.status();
  out->plan = std::move(*plan);
  if (out->plan.makes_files && UcxFolder::MayHaveOwn()) {
    if (StatusOr<UcxFolder> folder = UcxFolder::Make(); folder.ok()) {
      out->folder.emplace(std::move(*folder));
      // UCX 1.13 looks for it without the prefix.
      out->plan.settings.push_back({"DIR", out->folder->path(), "POSIX_DIR"});
    } else if (out->plan.needs_files) {
      return folder.status();
    } else {
      // UCX may take another kind of memory than that of files, and says so if it cannot.
      GW_LOG(kInfo, kNet, "{}", folder.status().ToString());
    }
  }
  GW_RETURN_IF_ERROR(config.Apply(out->plan));

  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = options.world_size;
  const ucs_status_t status = out->api->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params,
                                                         config.get(), &out->context);
  if (status == UCS_OK) return Status::Ok();
  return UcxError(*out->api, gwTransportUnavailable,
                  fmt::format("starting it with UCX_TLS={}", out->plan.tls), status)
      .WithHint("ucx_info -d lists what UCX can use here");
}

Status OpenWorker(UcxWorker* out) {
  const UcxApi& api = *out->api;
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = api.ucp_worker_create(out->context, &params, &out->worker);
  if (status != UCS_OK) {
    return UcxError(api, gwTransportUnavailable,
                    fmt::format("a worker with UCX_TLS={}", out->plan.tls), status)
        .WithHint("Is /dev/shm full? 3 MB are needed for each rank");
  }
  if (out->folder) out->folder->Leave();
  status = api.ucp_worker_get_efd(out->worker, &out->event_fd);
  if (status != UCS_OK)
    return UcxError(api, gwTransportUnavailable, "its event descriptor", status);
  ucp_worker_attr_t attr = {};
  attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  status = api.ucp_worker_query(out->worker, &attr);
  if (status != UCS_OK) return UcxError(api, gwTransportUnavailable, "its own address", status);
  out->address.assign(reinterpret_cast<const char*>(attr.address), attr.address_length);
  api.ucp_worker_release_address(out->worker, attr.address);
  return Status::Ok();
}

// "#  resource 0 : md 0 dev 0 flags -- tcp/lo": the last words of such lines.
std::vector<std::string> ResourceNames(std::string_view printed) {
  std::vector<std::string> names;
  while (!printed.empty()) {
    const size_t end = std::min(printed.find('\n'), printed.size());
    const std::string_view line = printed.substr(0, end);
    printed.remove_prefix(std::min(end + 1, printed.size()));
    const size_t last = line.rfind(' ');
    const bool resource = line.find("resource") != line.npos && last != line.npos;
    if (resource && line.find('/', last) != line.npos) names.emplace_back(line.substr(last + 1));
  }
  return names;
}

// UCX leaves out a transport or a device that it does not find, and starts with the rest.
Status CheckReach(const TransportOptions& options, UcxWorker* out) {
  const std::vector<std::string> names = ResourceNames(
      Captured([&](FILE* file) { out->api->ucp_context_print_info(out->context, file); }));
  out->resources = fmt::format("{}", fmt::join(names, ", "));
  if (names.empty() || options.world_size == 1) return Status::Ok();  // it prints otherwise now
  for (const std::string& name : names) {
    if (!name.starts_with("self/") && !name.starts_with("cma/")) return Status::Ok();
  }
  return Status(gwTransportUnavailable,
                fmt::format("ucx: with UCX_TLS={} there is only {}, which reaches no other process",
                            out->plan.tls, out->resources),
                "Unset UCX_TLS and UCX_NET_DEVICES, or name what is there (ucx_info -d); inside a "
                "network namespace /sys must be its own (ip netns exec does that)");
}

}  // namespace

StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Open(const TransportOptions& options) {
  StatusOr<const UcxApi*> api = LoadUcx();
  if (!api.ok()) return api.status();
  auto worker = std::make_unique<UcxWorker>();
  worker->api = *api;
  GW_RETURN_IF_ERROR(OpenContext(options, worker.get()));
  GW_RETURN_IF_ERROR(CheckReach(options, worker.get()));
  GW_RETURN_IF_ERROR(OpenWorker(worker.get()));
  GW_LOG(kInfo, kNet, "ucx {}: {}; fragments of {} bytes", worker->api->version(),
         worker->resources, worker->plan.fragment_bytes);
  return worker;
}

void UcxWorker::Close() {
  if (worker != nullptr) api->ucp_worker_destroy(std::exchange(worker, nullptr));
  if (context != nullptr) api->ucp_cleanup(std::exchange(context, nullptr));
  if (std::exchange(folder, std::nullopt)) RemoveDeadUcxFolders();
}

}  // namespace gradwire
