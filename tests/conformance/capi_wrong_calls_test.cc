// Exact collectives with wrong arguments.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/conformance/capi_wrong_call.h"

namespace gradwire {
namespace {

constexpr size_t kCount = kSceneElems;
constexpr size_t kOverflowing = SIZE_MAX / 8;

template <typename T>
T* Shifted(T* p, int bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(p) + bytes);
}

gwResult_t Sum(const void* send, void* recv, size_t count, gwComm_t comm) {
  return gwAllReduce(send, recv, count, gwFloat32, gwSum, comm, nullptr);
}

constexpr WrongCall kNullCalls[] = {
    {"all-reduce on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return Sum(s.send, s.recv, kCount, nullptr); }},
    {"reduce on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) {
       return gwReduce(s.send, s.recv, kCount, gwFloat32, gwSum, 0, nullptr, nullptr);
     }},
    {"broadcast on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwBroadcast(s.send, s.recv, kCount, gwFloat32, 0, nullptr, nullptr); }},
    {"all-gather on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwAllGather(s.send, s.recv, 4, gwFloat32, nullptr, nullptr); }},
    {"reduce-scatter on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) {
       return gwReduceScatter(s.send, s.recv, 4, gwFloat32, gwSum, nullptr, nullptr);
     }},
    {"all-to-all on null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwAllToAll(s.send, s.recv, 4, gwFloat32, nullptr, nullptr); }},
    {"barrier on null", gwInvalidArgument, "communicator is null",
     [](Scene&) { return gwBarrier(nullptr, nullptr); }},
    {"no send", gwInvalidArgument, "null",
     [](Scene& s) { return Sum(nullptr, s.recv, kCount, s.comm); }},
    {"no recv", gwInvalidArgument, "null",
     [](Scene& s) { return Sum(s.send, nullptr, kCount, s.comm); }},
    {"broadcast without recv", gwInvalidArgument, "null",
     [](Scene& s) { return gwBroadcast(s.send, nullptr, 4, gwFloat32, 0, s.comm, nullptr); }},
};

constexpr WrongCall kValueCalls[] = {
    {"a negative count", gwInvalidArgument, "negative",
     [](Scene& s) { return Sum(s.send, s.recv, static_cast<size_t>(-4), s.comm); }},
    {"an overflowing count", gwInvalidArgument, "overflows",
     [](Scene& s) { return Sum(s.send, s.recv, SIZE_MAX / 4, s.comm); }},
    {"a count that overflows with all ranks'", gwInvalidArgument, "overflows",
     [](Scene& s) {
       return gwAllGather(s.send, s.recv, kOverflowing, gwFloat32, s.comm, nullptr);
     }},
    {"a type too large", gwInvalidArgument, "10 is no data type",
     [](Scene& s) {
       return gwAllReduce(s.send, s.recv, 4, static_cast<gwDataType_t>(10), gwSum, s.comm, nullptr);
     }},
    {"a negative type", gwInvalidArgument, "-1 is no data type",
     [](Scene& s) {
       return gwAllReduce(s.send, s.recv, 4, static_cast<gwDataType_t>(-1), gwSum, s.comm, nullptr);
     }},
    {"an operation too large", gwInvalidArgument, "5 is no reduction operation",
     [](Scene& s) {
       return gwReduceScatter(s.send, s.recv, 4, gwFloat32, static_cast<gwRedOp_t>(5), s.comm,
                              nullptr);
     }},
    {"a negative root", gwInvalidArgument, "root -1",
     [](Scene& s) { return gwBroadcast(s.send, s.recv, 4, gwFloat32, -1, s.comm, nullptr); }},
    {"a root too large", gwInvalidArgument, "root 2",
     [](Scene& s) { return gwReduce(s.send, s.recv, 4, gwFloat32, gwSum, 2, s.comm, nullptr); }},
    {"a stream", gwInvalidArgument, "NULL",
     [](Scene& s) { return gwAllReduce(s.send, s.recv, 4, gwFloat32, gwSum, s.comm, &s.number); }},
    {"a barrier on a stream", gwInvalidArgument, "NULL",
     [](Scene& s) { return gwBarrier(s.comm, &s.number); }},
};

constexpr WrongCall kMemoryCalls[] = {
    {"send is misaligned", gwInvalidArgument, "aligned",
     [](Scene& s) { return Sum(Shifted(s.send, 1), s.recv, 4, s.comm); }},
    {"recv is misaligned", gwInvalidArgument, "aligned",
     [](Scene& s) { return Sum(s.send, Shifted(s.recv, 2), 4, s.comm); }},
    {"doubles on floats' borders", gwInvalidArgument, "aligned",
     [](Scene& s) {
       char* p = reinterpret_cast<char*>(s.send);
       p += reinterpret_cast<uintptr_t>(p) % 8 == 0 ? 4 : 0;
       return gwAllReduce(p, p, 2, gwFloat64, gwSum, s.comm, nullptr);
     }},
    {"recv begins in send", gwInvalidArgument, "overlap",
     [](Scene& s) { return Sum(s.send, s.send + 1, 4, s.comm); }},
    {"send begins in recv", gwInvalidArgument, "overlap",
     [](Scene& s) { return Sum(s.recv + 3, s.recv, 4, s.comm); }},
    {"all-gather in another rank's place", gwInvalidArgument, "overlap",
     [](Scene& s) {
       return gwAllGather(s.recv + 4 * (1 - s.rank), s.recv, 4, gwFloat32, s.comm, nullptr);
     }},
    {"reduce-scatter in another rank's place", gwInvalidArgument, "overlap",
     [](Scene& s) {
       return gwReduceScatter(s.send, s.send + 4 * (1 - s.rank), 4, gwFloat32, gwSum, s.comm,
                              nullptr);
     }},
    {"all-to-all in place", gwInvalidArgument, "overlap",
     [](Scene& s) { return gwAllToAll(s.send, s.send, 4, gwFloat32, s.comm, nullptr); }},
};

TEST(CapiWrongCalls, NullIsRefusedWithoutEffect) { CheckWrongCalls(kNullCalls); }
TEST(CapiWrongCalls, WrongValuesAreRefusedWithoutEffect) { CheckWrongCalls(kValueCalls); }
TEST(CapiWrongCalls, WrongMemoryIsRefusedWithoutEffect) { CheckWrongCalls(kMemoryCalls); }

}  // namespace
}  // namespace gradwire
