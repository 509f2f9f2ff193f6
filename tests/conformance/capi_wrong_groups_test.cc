// Splits, messages and groups with wrong arguments. (A rank whose argument to gwCommSplit is wrong
// takes part all the same: tests/integration/groups.)
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/conformance/capi_wrong_call.h"

namespace gradwire {
namespace {

constexpr WrongCall kCalls[] = {
    {"a split of null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwCommSplit(nullptr, 0, 0, &s.new_comm, nullptr); }},
    {"a send on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwSend(s.send, 1, gwFloat32, 0, nullptr, nullptr); }},
    {"a receive on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwRecv(s.recv, 1, gwFloat32, 0, nullptr, nullptr); }},
    {"a negative peer", gwInvalidArgument, "peer -1",
     [](Scene& s) { return gwSend(s.send, 1, gwFloat32, -1, s.comm, nullptr); }},
    {"a peer too large", gwInvalidArgument, "peer 2",
     [](Scene& s) { return gwRecv(s.recv, 1, gwFloat32, 2, s.comm, nullptr); }},
    {"no memory to send", gwInvalidArgument, "null",
     [](Scene& s) { return gwSend(nullptr, 1, gwFloat32, 1 - s.rank, s.comm, nullptr); }},
    {"no memory to receive", gwInvalidArgument, "null",
     [](Scene& s) { return gwRecv(nullptr, 1, gwFloat32, 1 - s.rank, s.comm, nullptr); }},
    {"a negative count", gwInvalidArgument, "negative",
     [](Scene& s) {
       return gwSend(s.send, static_cast<size_t>(-4), gwFloat32, 1 - s.rank, s.comm, nullptr);
     }},
    {"no such type", gwInvalidArgument, "10 is no data type",
     [](Scene& s) {
       return gwRecv(s.recv, 1, static_cast<gwDataType_t>(10), 1 - s.rank, s.comm, nullptr);
     }},
    {"a stream", gwInvalidArgument, "NULL",
     [](Scene& s) { return gwSend(s.send, 1, gwFloat32, 1 - s.rank, s.comm, &s.number); }},
    {"memory that is not aligned", gwInvalidArgument, "aligned",
     [](Scene& s) {
       return gwRecv(reinterpret_cast<char*>(s.recv) + 1, 1, gwFloat32, 1 - s.rank, s.comm,
                     nullptr);
     }},
    {"to itself, alone", gwInvalidUsage, "gwGroupStart",
     [](Scene& s) { return gwSend(s.send, 1, gwFloat32, s.rank, s.comm, nullptr); }},
    {"an end without a group", gwInvalidUsage, "no group is open",
     [](Scene&) { return gwGroupEnd(); }},
};

TEST(CapiWrongGroups, AreRefusedWithoutEffect) { CheckWrongCalls(kCalls); }

}  // namespace
}  // namespace gradwire
