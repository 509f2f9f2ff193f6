#include "cli/netlab/delayed_bridge.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cli/launch/posix.h"

namespace gradwire {
namespace {

constexpr std::array<uint8_t, 4> kMacPrefix = {0x02, 'g', 'w', 0};  // locally administered

// Segments that are not cut yet come whole, behind a header that says how they are to be cut:
// virtio_net_hdr, whose own header file is no C++.
constexpr size_t kFrameHeader = 10;
constexpr size_t kLongestFrame = kFrameHeader + 256 * 1024;
// What waits at a port is the shaper's to drop, not the socket's.
constexpr int kSocketBytes = 128 << 20;

// Invalid: errno says why.
UniqueFd OpenPort(const std::string& interface) {
  const auto all = htons(ETH_P_ALL);
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const auto set = [&](int level, int option, int value) {
    return setsockopt(fd.get(), level, option, &value, sizeof value) == 0;
  };
  const sockaddr_ll address = {.sll_family = AF_PACKET,
                               .sll_protocol = all,
                               .sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()))};
  const bool opened =
      fd.valid() && set(SOL_PACKET, PACKET_VNET_HDR, on) &&
      set(SOL_PACKET, PACKET_IGNORE_OUTGOING, on) &&
      set(SOL_SOCKET, SO_RCVBUFFORCE, kSocketBytes) &&
      set(SOL_SOCKET, SO_SNDBUFFORCE, kSocketBytes) && address.sll_ifindex > 0 &&
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return opened ? std::move(fd) : UniqueFd();
}

class Bridge {
 public:
  Bridge(std::vector<UniqueFd> ports, int64_t delay_ns)
      : ports_(std::move(ports)), delay_ns_(delay_ns) {
    for (const UniqueFd& port : ports_) polled_.push_back({.fd = port.get(), .events = POLLIN});
  }

  [[noreturn]] void Run() {
    for (;;) {
      WaitForFrameOrTime();
      for (size_t port = 0; port < ports_.size(); ++port) {
        if (polled_[port].revents != 0) TakeFrames(static_cast<int>(port));
      }
      SendDue();
    }
  }

 private:
  struct Frame {
    int64_t due_ns;
    int from;
    std::vector<uint8_t> bytes;
  };

  void WaitForFrameOrTime() {
    timespec wait = {};
    if (!held_.empty()) {
      const int64_t ns = std::max<int64_t>(held_.front().due_ns - clock_.NowNs(), 0);
      wait = {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
    }
    (void)ppoll(polled_.data(), polled_.size(), held_.empty() ? nullptr : &wait, nullptr);
  }

  void TakeFrames(int port) {
    for (;;) {
      const ssize_t n =
          recv(ports_[static_cast<size_t>(port)].get(), buffer_.data(), buffer_.size(), MSG_TRUNC);
      if (n < 0) return;
      const auto bytes = static_cast<size_t>(n);
      if (bytes < kFrameHeader + sizeof(ether_header) || bytes > buffer_.size()) continue;
      held_.push_back({clock_.NowNs() + delay_ns_, port, {buffer_.data(), buffer_.data() + n}});
    }
  }

  // All are held equally long, so that they are due in the order in which they came.
  void SendDue() {
    while (!held_.empty() && held_.front().due_ns <= clock_.NowNs()) {
      const Frame& frame = held_.front();
      MacAddress to;
      std::copy_n(frame.bytes.data() + kFrameHeader, to.size(), to.begin());
      const int port = PortFor(to, static_cast<int>(ports_.size()));
      for (int p = 0; p < static_cast<int>(ports_.size()); ++p) {
        if (p != frame.from && (port < 0 || port == p)) Send(p, frame.bytes);
      }
      held_.pop_front();
    }
  }

  // What the port's shaper has no room for is dropped, and counted there.
  void Send(int port, const std::vector<uint8_t>& bytes) {
    (void)send(ports_[static_cast<size_t>(port)].get(), bytes.data(), bytes.size(), 0);
  }

  const std::vector<UniqueFd> ports_;
  const int64_t delay_ns_;
  const Clock& clock_ = SteadyClock();
  std::vector<pollfd> polled_;
  std::deque<Frame> held_;
  std::vector<uint8_t> buffer_ = std::vector<uint8_t>(kLongestFrame);
};

constexpr std::string_view kReady = "ready";

// In the child. Writes kReady when all ports are open, else what is wrong.
[[noreturn]] void RunBridge(int net_namespace_fd, const std::vector<std::string>& names,
                            int64_t delay_ns, UniqueFd report) {
  const auto fail = [&](const std::string& what) {
    (void)WriteFully(report.get(), fmt::format("{}: {}", what, std::strerror(errno)));
    _exit(1);
  };
  if (setns(net_namespace_fd, CLONE_NEWNET) != 0) fail("cannot enter the network namespace");
  std::vector<UniqueFd> ports;
  for (const std::string& name : names) {
    ports.push_back(OpenPort(name));
    if (!ports.back().valid()) fail(fmt::format("cannot take frames from {}", name));
  }
  // As a network does it, whoever else computes; where that is not allowed it has to do without.
  const sched_param first = {.sched_priority = 1};
  (void)sched_setscheduler(0, SCHED_FIFO, &first);
  if (!WriteFully(report.get(), kReady)) _exit(1);
  report.reset();
  Bridge(std::move(ports), delay_ns).Run();
}

}  // namespace

MacAddress MacOf(int rank) {
  return {kMacPrefix[0],
          kMacPrefix[1],
          kMacPrefix[2],
          kMacPrefix[3],
          static_cast<uint8_t>(rank >> 8),
          static_cast<uint8_t>(rank)};
}

std::string MacText(const MacAddress& address) {
  return fmt::format("{:02x}", fmt::join(address, ":"));
}

int PortFor(const MacAddress& to, int ports) {
  if (!std::equal(kMacPrefix.begin(), kMacPrefix.end(), to.begin())) return -1;
  const int rank = to[4] << 8 | to[5];
  return rank < ports ? rank : -1;
}

StatusOr<DelayedBridge> DelayedBridge::Start(const NetNamespace& where,
                                             const std::vector<std::string>& ports,
                                             int64_t delay_ns) {
  Pipe report;
  GW_RETURN_IF_ERROR(report.Open());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("cannot fork", errno);
  if (pid == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    // What is typed at the launcher's terminal ends ranks, which say farewell over these links.
    setsid();
    for (const int ignored : {SIGINT, SIGTERM, SIGHUP}) std::signal(ignored, SIG_IGN);
    report.read_end.reset();
    RunBridge(where.fd(), ports, delay_ns, std::move(report.write_end));
  }
  DelayedBridge bridge(pid);
  report.write_end.reset();
  const std::string said = ReadAll(report.read_end.get());
  if (said == kReady) return bridge;
  return Status(gwSystemError,
                fmt::format("the bridge that delays frames {}", said.empty() ? "died" : said),
                "Run as root, on a kernel with AF_PACKET, or without a delay");
}

DelayedBridge::~DelayedBridge() {
  if (pid_ < 0) return;
  // If it has died, a launcher that waits for any child has taken that, and the number may be
  // another's.
  siginfo_t how = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  kill(pid_, SIGKILL);
  RetryOnSignal([&] { return waitpid(pid_, nullptr, 0); });
}

}  // namespace gradwire
