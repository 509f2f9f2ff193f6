// Every setting of gradwire, once. `gradwire info -c`, docs/settings.md and all checks come from
// here; settings.h has the values. A new setting is a new row.
#ifndef GRADWIRE_BASE_SETTINGS_TABLE_H_
#define GRADWIRE_BASE_SETTINGS_TABLE_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace gradwire {

enum class SettingType : uint8_t {
  kInt,       // whole number
  kBool,      // on, off; also true, false, yes, no, 1, 0
  kEnum,      // one of `choices`, any case
  kName,      // one of `choices` or a name from a registry, see SettingsInput::names
  kString,    // any text
  kBytes,     // whole number of bytes; K, M, G, T count powers of 1024
  kDuration,  // whole number in the unit that the setting's name ends in, or with us, ms, s, m, h
};

// Whom a value is for and where it may come from.
enum class SettingScope : uint8_t {
  kProcess,  // the whole process: the first communicator decides, then who names it in its text
  kCommunicator,  // each communicator may have its own; equal on all ranks unless the row says
                  // otherwise
  kLaunch,        // differs from process to process: API or environment, refused in gradwire.toml
};

struct SettingRow {
  std::string_view name;  // the environment variable is GRADWIRE_ and this in capitals
  SettingType type;
  SettingScope scope;
  std::string_view default_text;  // as a user would write it
  std::string_view choices = {};  // kEnum, kName: separated by |
  int64_t min = 0;                // numbers only, inclusive, in the unit of the name
  int64_t max = 0;
  bool hidden = false;   // its value is never shown
  std::string_view doc;  // one line for users
};

inline constexpr std::string_view kSettingPrefix = "GRADWIRE_";

inline constexpr int64_t kMaxSettingMs = int64_t{7} * 24 * 3600 * 1000;  // a week

// The order is the order of the documentation. Every row's own text says what 0 or empty means.
inline constexpr std::array kSettings = {
    // What travels.
    SettingRow{
        .name = "compress",
        .type = SettingType::kString,
        .scope = SettingScope::kCommunicator,
        .default_text = "none",
        .doc = "codec of registered tensors that name none: none, bf16, qsgd(bits=4), auto, ..."},
    SettingRow{.name = "nonfinite",
               .type = SettingType::kEnum,
               .scope = SettingScope::kCommunicator,
               .default_text = "propagate",
               .choices = "propagate|skip|error",
               .doc = "what NaN or infinity in a gradient does: pass on, skip the step on all "
                      "ranks, or fail, "
                      "which costs one more pass over the gradients and tells whose they are"},
    SettingRow{
        .name = "transaction",
        .type = SettingType::kBool,
        .scope = SettingScope::kCommunicator,
        .default_text = "on",
        .doc = "keep two residuals per tensor, so that an aborted step can be run again exactly"},
    SettingRow{
        .name = "seed",
        .type = SettingType::kInt,
        .scope = SettingScope::kCommunicator,
        .default_text = "0",
        .min = 0,
        .max = 0xFFFFFFFF,
        .doc = "of all random rounding; the same seed gives the same bits, with any spec but auto"},

    // How it travels.
    SettingRow{
        .name = "transport",
        .type = SettingType::kName,
        .scope = SettingScope::kCommunicator,
        .default_text = "auto",
        .choices = "auto",
        .doc = "what carries the bytes; auto takes the fastest that works between these ranks"},
    SettingRow{.name = "algorithm",
               .type = SettingType::kName,
               .scope = SettingScope::kCommunicator,
               .default_text = "auto",
               .choices = "auto",
               .doc = "schedule of all-reduces, for other collectives choose their own; auto "
                      "chooses by size and ranks"},
    SettingRow{.name = "slice_elems",
               .type = SettingType::kInt,
               .scope = SettingScope::kCommunicator,
               .default_text = "0",
               .min = 0,
               .max = int64_t{1} << 28,
               .doc = "elements of the pieces an operation is pipelined in; 0 chooses"},
    SettingRow{.name = "window",
               .type = SettingType::kInt,
               .scope = SettingScope::kCommunicator,
               .default_text = "0",
               .min = 0,
               .max = 64,
               .doc = "slices in flight; 0: 4, and between hosts up to 64 where latency is what "
                      "they wait for"},
    SettingRow{.name = "fragment_bytes",
               .type = SettingType::kBytes,
               .scope = SettingScope::kCommunicator,
               .default_text = "0",
               .min = 0,
               .max = 1 << 20,
               .doc = "bytes handed to the transport at once, a multiple of 64: at most 1 MiB over "
                      "tcp, 65280 over "
                      "ucx; 0 takes what suits the transport"},
    SettingRow{
        .name = "spin_us",
        .type = SettingType::kDuration,
        .scope = SettingScope::kCommunicator,
        .default_text = "5",
        .min = 0,
        .max = 1'000'000,
        .doc = "how long an idle engine polls before it yields and sleeps, 2 where ranks outnumber "
               "cores unless it is set; may differ between ranks"},
    SettingRow{.name = "interface",
               .type = SettingType::kString,
               .scope = SettingScope::kCommunicator,
               .default_text = "",
               .doc = "network interface to use, as eth0; may differ between ranks; empty chooses"},

    // When to give up.
    SettingRow{.name = "init_timeout_ms",
               .type = SettingType::kDuration,
               .scope = SettingScope::kCommunicator,
               .default_text = "60000",
               .min = 1,
               .max = kMaxSettingMs,
               .doc = "until all ranks have arrived"},
    SettingRow{.name = "op_timeout_ms",
               .type = SettingType::kDuration,
               .scope = SettingScope::kCommunicator,
               .default_text = "600000",
               .min = 1,
               .max = kMaxSettingMs,
               .doc = "without progress of the oldest operation, until its step is aborted"},
    SettingRow{.name = "abort_timeout_ms",
               .type = SettingType::kDuration,
               .scope = SettingScope::kCommunicator,
               .default_text = "5000",
               .min = 1,
               .max = kMaxSettingMs,
               .doc = "until an aborted communicator has let go of all buffers"},
    SettingRow{.name = "heartbeat_ms",
               .type = SettingType::kDuration,
               .scope = SettingScope::kCommunicator,
               .default_text = "2000",
               .min = 1,
               .max = kMaxSettingMs,
               .doc = "between two signs of life"},
    SettingRow{.name = "heartbeat_timeout_ms",
               .type = SettingType::kDuration,
               .scope = SettingScope::kCommunicator,
               .default_text = "10000",
               .min = 2,
               .max = kMaxSettingMs,
               .doc = "silence after which a rank counts as lost; at least twice heartbeat_ms"},

    // Who and where.
    SettingRow{.name = "rank",
               .type = SettingType::kInt,
               .scope = SettingScope::kLaunch,
               .default_text = "-1",
               .min = -1,
               .max = (1 << 30) - 1,
               .doc = "of this process, from 0; -1 asks the launcher's own variables"},
    SettingRow{.name = "world_size",
               .type = SettingType::kInt,
               .scope = SettingScope::kLaunch,
               .default_text = "0",
               .min = 0,
               .max = 0xFFFE,
               .doc = "number of ranks; 0 asks the launcher's own variables"},
    SettingRow{
        .name = "root",
        .type = SettingType::kString,
        .scope = SettingScope::kCommunicator,
        .default_text = "",
        .doc =
            "host:port where rank 0 waits for the others; empty asks the launcher's own variables"},
    SettingRow{.name = "port",
               .type = SettingType::kInt,
               .scope = SettingScope::kCommunicator,
               .default_text = "0",
               .min = 0,
               .max = 65535,
               .doc =
                   "TCP port that rank 0 listens on where root names none; 0: the one behind "
                   "MASTER_PORT, else one of 20000 to 29999 that follows from the job, or with a "
                   "unique id any free one"},
    SettingRow{
        .name = "secret",
        .type = SettingType::kString,
        .scope = SettingScope::kCommunicator,
        .default_text = "",
        .hidden = true,
        .doc = "shared by all ranks of the job; proves to each that the others belong to it"},
    SettingRow{.name = "insecure",
               .type = SettingType::kBool,
               .scope = SettingScope::kCommunicator,
               .default_text = "off",
               .doc = "allow a job without a secret on addresses other than loopback"},

    SettingRow{.name = "host_id",
               .type = SettingType::kString,
               .scope = SettingScope::kLaunch,
               .default_text = "",
               .doc = "ranks with equal ids count as being on one host; empty asks the system"},

    // What a person sees.
    SettingRow{.name = "debug",
               .type = SettingType::kEnum,
               .scope = SettingScope::kProcess,
               .default_text = "warn",
               .choices = "none|version|error|warn|info|trace",
               .doc = "how much is logged; each level includes the ones before"},
    SettingRow{.name = "debug_subsys",
               .type = SettingType::kString,
               .scope = SettingScope::kProcess,
               .default_text = "ALL",
               .doc = "which info and trace lines: INIT,COLL,NET,CTRL,CODEC,STEP,PLAN,ENV or ALL; "
                      "^ excludes"},
    SettingRow{.name = "debug_file",
               .type = SettingType::kString,
               .scope = SettingScope::kProcess,
               .default_text = "",
               .doc = "log file, %h is the host and %p the process id; empty: standard error"},
    SettingRow{.name = "recorder_dir",
               .type = SettingType::kString,
               .scope = SettingScope::kCommunicator,
               .default_text = "",
               .doc = "folder for the flight recorder's files, which survive a killed rank; empty: "
                      "in memory. Ranks may differ"},
    SettingRow{.name = "record_messages",
               .type = SettingType::kString,
               .scope = SettingScope::kCommunicator,
               .default_text = "",
               .doc = "file to which each rank, as FILE.RANK, writes the messages really sent, for "
                      "checking; empty: none"},
    SettingRow{
        .name = "record_timeline",
        .type = SettingType::kString,
        .scope = SettingScope::kCommunicator,
        .default_text = "",
        .doc = "file to which each rank, as FILE.RANK, writes when it stepped, waited, encoded, "
               "decoded and communicated, for `gradwire trace`; empty: none"},
    SettingRow{.name = "plan_log",
               .type = SettingType::kString,
               .scope = SettingScope::kCommunicator,
               .default_text = "",
               .doc = "file in which rank 0 keeps what its controller decides from and what it "
                      "decides, for `gradwire plan`; empty: none"},
    SettingRow{.name = "failpoint",
               .type = SettingType::kString,
               .scope = SettingScope::kLaunch,
               .default_text = "",
               .doc = "for tests: the process kills itself at this place of docs/reliability.md, "
                      "as vote or vote:7 (the seventh time); empty: never"},
    SettingRow{
        .name = "config",
        .type = SettingType::kString,
        .scope = SettingScope::kLaunch,
        .default_text = "",
        .doc = "path of gradwire.toml; empty: that of the working directory, if there is one"},
};

// A variable with our prefix that is no setting: the file and the API do not know it.
struct OtherVariable {
  std::string_view name;
  std::string_view doc;
};
inline constexpr auto kOtherVariables = std::to_array<OtherVariable>({
    {"GRADWIRE_LOCAL_RANK", "set by the launcher: the rank among those of its host"},
    {"GRADWIRE_LOCAL_WORLD_SIZE", "set by the launcher: how many ranks its host has"},
    {"GRADWIRE_LAUNCH_BOARD",
     "set by `gradwire run`: an open file that tells which ranks have ended, for those that wait "
     "for them"},
    {"GRADWIRE_JOB",
     "any text, the same on all ranks of a job: tells apart jobs that share launcher and hosts"},
    {"GRADWIRE_NETLAB",
     "set by `gradwire run --netlab`: what its links are like, for reports of measurements"},
    {"GRADWIRE_PROGRESS",
     "1: standard error reaches a terminal; set by `gradwire run` for rank 0, whose last line then "
     "tells how far long work is"},
    {"GRADWIRE_LIBRARY",
     "path of the libgradwire.so.0 that the Python package loads; empty: its own"},
    {"GRADWIRE_MIN_BYTES",
     "backend `gradwire` of torch.distributed: arrays from this size on are compressed, 1M where "
     "it "
     "is not set (K, M, G are powers of 1024)"},
    {"GRADWIRE_CUDA", "0 builds gradwire without CUDA, as `bazel build --config=nocuda` does"},
});

}  // namespace gradwire

#endif  // GRADWIRE_BASE_SETTINGS_TABLE_H_
