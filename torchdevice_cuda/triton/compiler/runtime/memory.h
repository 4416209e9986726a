// Device memory: every access of a kernel is checked against it, a contiguous row at once.
#pragma once
#include "types.h"
#ifdef TTC_SANITIZED
#include "host_sanitizer/races.h"
#include "host_sanitizer/tools.h"
#endif
#ifdef TTC_COUNTED
#include "../../../native/csrc/clock/block_counts.h"
#endif

struct Range {
  uintptr_t first, size;
};
// Ranges in the order of their addresses; none touches another.
struct Table {
  int64_t count;
  Range ranges[1];
};
enum Failure : int32_t {
  NO_FAILURE = 0,
  BAD_ADDRESS = 1,
  ASSERTION = 2,
  NO_PROGRESS = 3,
  INTERRUPTED = 4,
  MISALIGNED = 5
};

// Functions of Python, for the thread that handles its signals.
struct Signals {
  int (*acquire)();
  int (*handle)();
  void (*fetch)(void** type, void** value, void** traceback);
  void (*release)(int state);
};

// A launch, as Python lays it out (launch.py).
struct Launch {
  int32_t grid[3];
  int32_t threads;
  const int64_t* arguments;
  const Table* table;
  // Replaces the table by one of all memory that is accessible by now.
  void (*refresh)(Launch* launch);
  void (*write)(const char* text, int64_t length);
  int32_t failure;
  int32_t site;
  int32_t program[3];
  int32_t reserved;
  uint64_t address;
  // Programs that have started, and those that have ended.
  int64_t started, ended;
  // Null on threads that handle no signals.
  const Signals* signals;
  // The exception of a handler: its type, value and traceback.
  void* error[3];
  // Of a launch that counts: the members of KernelCounts (native/csrc/clock/kernel_times.h).
  double* counts;
};
struct Grid;

// A tensor of device memory, of which blocks are loaded and stored.
template <class T, int RANK>
struct Descriptor {
  T* base;
  int64_t sizes[RANK], strides[RANK];
  bool pads_with_nan, rounds_to_tf32;
};

// What a program throws to end itself; the launch says why.
struct Ended {};

struct Program {
  Launch& launch;
  Grid& grid;
  Range* seen;
  bool is_caller;
  int32_t index[3];
#ifdef TTC_SANITIZED
  host_sanitizer::Block block;
#endif
#ifdef TTC_COUNTED
  host_cuda::Counts* counts;
#endif
};

TTC_COLD static void fail(Program& program, Failure failure, int site, uintptr_t address) {
  int32_t none = NO_FAILURE;
  Launch& launch = program.launch;
  if (__atomic_compare_exchange_n(&launch.failure, &none, failure, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    launch.site = site;
    launch.address = address;
    for (int axis = 0; axis < 3; axis++) launch.program[axis] = program.index[axis];
  }
  throw Ended();
}

TTC_INLINE bool holds(const Range& range, uintptr_t address, uintptr_t bytes) {
  return bytes <= range.size && address - range.first <= range.size - bytes;
}

TTC_COLD static bool find_range(const Table* table, Range& seen, uintptr_t address, uintptr_t bytes) {
  int64_t low = 0, high = table->count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (table->ranges[middle].first <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (!low || !holds(table->ranges[low - 1], address, bytes)) return false;
  seen = table->ranges[low - 1];
  return true;
}

// Whether all of a row is accessible; asked again before a program ends: memory may be newer than the table.
TTC_COLD static bool look_up(Program& program, int site, uintptr_t address, uintptr_t bytes, bool may_refresh) {
  Launch& launch = program.launch;
  Range& seen = program.seen[site];
  if (find_range(__atomic_load_n(&launch.table, __ATOMIC_ACQUIRE), seen, address, bytes)) return true;
  if (!may_refresh) return false;
  launch.refresh(&launch);
  return find_range(__atomic_load_n(&launch.table, __ATOMIC_ACQUIRE), seen, address, bytes);
}

template <class T>
TTC_INLINE bool is_accessible(Program& program, int site, const T* address, int64_t count) {
  const uintptr_t at = (uintptr_t)address, bytes = (uintptr_t)count * sizeof(T);
  return holds(program.seen[site], at, bytes) || look_up(program, site, at, bytes, false);
}
template <class T>
TTC_INLINE T* check(Program& program, int site, T* address, int64_t count = 1) {
  const uintptr_t at = (uintptr_t)address, bytes = (uintptr_t)count * sizeof(T);
  if (__builtin_expect(!holds(program.seen[site], at, bytes), 0) && !look_up(program, site, at, bytes, true))
    fail(program, BAD_ADDRESS, site, at);
  return address;
}
// Whether elements are at equal distances, and all memory between the first and the last is accessible.
template <class T>
TTC_INLINE bool is_strided_row(Program& program, int site, T* first, T* last, int64_t stride, int64_t count) {
  if (count <= 0) return true;
  if (((intptr_t)last - (intptr_t)first) != stride * (count - 1) * (int64_t)sizeof(T)) return false;
  T* const low = first < last ? first : last;
  return is_accessible(program, site, low, (stride < 0 ? -stride : stride) * (count - 1) + 1);
}

// Whether two rows share memory.
template <class T, class U>
TTC_INLINE bool overlaps(const T* one, int64_t count, const U* other, int64_t others) {
  return (uintptr_t)one < (uintptr_t)(other + others) && (uintptr_t)other < (uintptr_t)(one + count);
}
template <class T>
TTC_INLINE const T* copy_row(T* copy, const T* row, int64_t count) {
  if (row != copy) memcpy(copy, row, count * sizeof(T));
  return copy;
}

// How many elements at the start of a row a mask selects, where it selects none behind one that it does not.
template <class F>
TTC_INLINE int count_selected(int size, F is_selected) {
  if (is_selected(size - 1)) return size;
  int low = 0, high = size - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (is_selected(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class T>
struct bits_of {
  typedef typename choose<
      sizeof(T) == 8, uint64_t,
      typename choose<sizeof(T) == 4, uint32_t, typename choose<sizeof(T) == 2, uint16_t, uint8_t>::type>::type>::type
      type;
};
// A scalar: another program may change it while a loop waits for that.
template <class T>
TTC_INLINE T read_scalar(const T* address) {
  typedef typename bits_of<T>::type Bits;
  return bits_as<T>((Bits)__atomic_load_n((const Bits*)address, __ATOMIC_RELAXED));
}
template <class T>
TTC_INLINE T read_acquired(const T* address) {
  typedef typename bits_of<T>::type Bits;
  return bits_as<T>((Bits)__atomic_load_n((const Bits*)address, __ATOMIC_ACQUIRE));
}
template <class T>
TTC_INLINE void write_released(T* address, T value) {
  typedef typename bits_of<T>::type Bits;
  __atomic_store_n((Bits*)address, bits_as<Bits>(value), __ATOMIC_RELEASE);
}
template <class T>
TTC_INLINE bool is_same(T one, T other) {
  typedef typename bits_of<T>::type Bits;
  return bits_as<Bits>(one) == bits_as<Bits>(other);
}

// Atomic operations by compare and exchange, of 1, 2, 4 or 8 bytes.
template <class T, class F>
TTC_INLINE T change_atomically(T* address, F change) {
  typedef typename bits_of<T>::type Bits;
  Bits seen = __atomic_load_n((Bits*)address, __ATOMIC_RELAXED), next;
  do {
    next = bits_as<Bits>((T)change(bits_as<T>(seen)));
  } while (!__atomic_compare_exchange_n((Bits*)address, &seen, next, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return bits_as<T>(seen);
}
