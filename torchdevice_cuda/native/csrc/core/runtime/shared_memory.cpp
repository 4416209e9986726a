#include "runtime/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "compat.h"

// Define HOSTDEVICE_NAMED_SHARED_MEMORY to test the implementation for other systems on Linux.
#if defined(__linux__) && !defined(HOSTDEVICE_NAMED_SHARED_MEMORY)
#define HOSTDEVICE_NAMELESS 1
#else
#define HOSTDEVICE_NAMELESS 0
#endif

namespace hostdevice {
namespace {

// Return whether the object belongs to this user and contains the range. Access past an object's end raises SIGBUS.
bool is_within(const struct stat& object, const SharedRange& range) {
  const auto size = static_cast<uint64_t>(object.st_size);
  return object.st_uid == geteuid() && range.size > 0 && range.offset <= size && range.size <= size - range.offset;
}

char* map_file(int file, const SharedRange& range, char* at) {
  int flags = MAP_SHARED | (at ? MAP_FIXED : 0);
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;
#endif
  void* mapped = mmap(at, range.size, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(range.offset));
  return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

#if HOSTDEVICE_NAMELESS

// The shared memory object of this process. It only grows: a freed range leaves a hole, which takes no memory.
struct Object {
  std::mutex mutex;
  int file = -1;
  uint64_t identity = 0;
  uint64_t size = 0;
};

Object& object() {
  static auto* one = new Object;  // leaked: tensors outlive static destruction
  return *one;
}

constexpr char kObjectName[] = "torchdevice_cuda";

uint64_t identity_of(int file) {
  struct stat status{};
  return fstat(file, &status) == 0 ? static_cast<uint64_t>(status.st_ino) : 0;
}

// Return whether create_shared_range() created this descriptor's object, in any process, and the object contains the
// range.
bool is_object(int file, const SharedRange& range) {
  char path[64], found[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const auto length = readlink(path, found, sizeof found);
  const std::string expected = std::string("/memfd:") + kObjectName + " (deleted)";
  if (length < 0 || std::string(found, static_cast<size_t>(length)) != expected) return false;
  struct stat status{};
  // Such an object has no link in the file system; a file with the same name has one.
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0 &&
      static_cast<uint64_t>(status.st_ino) == range.identity && is_within(status, range);
}

#else

// Names of this process's ranges, unlinked when it exits; not when a child forked from it exits.
struct Names {
  std::mutex mutex;
  std::set<std::string> all;
  const pid_t maker = getpid();
};

Names& names() {
  static auto* one = new Names;
  return *one;
}

// At most 31 characters, the limit of macOS.
std::string object_name(const SharedRange& range) {
  char text[32];
  std::snprintf(
      text, sizeof text, "/tdc%llx.%llx", static_cast<unsigned long long>(range.process) & 0xffffffff,
      static_cast<unsigned long long>(range.identity));
  return text;
}

void unlink_names() {
  if (getpid() != names().maker) return;
  const std::lock_guard<std::mutex> lock(names().mutex);
  for (const auto& name : names().all) shm_unlink(name.c_str());
}

#endif

}  // namespace

#if HOSTDEVICE_NAMELESS

std::optional<SharedRange> create_shared_range(size_t size) {
  auto& o = object();
  const std::lock_guard<std::mutex> lock(o.mutex);
  if (o.file < 0) {
    o.file = memfd_create(kObjectName, MFD_CLOEXEC);
    if (o.file < 0) return std::nullopt;
    o.identity = identity_of(o.file);
  }
  if (ftruncate(o.file, static_cast<off_t>(o.size + size)) != 0) return std::nullopt;
  const SharedRange made{getpid(), o.file, o.identity, o.size, size};
  o.size += size;
  return made;
}

char* map_shared_range(const SharedRange& range, char* at) {
  char path[64];
  std::snprintf(
      path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(range.process),
      static_cast<long long>(range.object));
  // A handle may name any descriptor of any process: check it before opening it, because opening may have side effects.
  const int seen = open(path, O_PATH | O_CLOEXEC);
  if (seen < 0) return nullptr;
  int file = -1;
  if (is_object(seen, range)) {
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", seen);
    file = open(path, O_RDWR | O_CLOEXEC);
  }
  close(seen);
  if (file < 0) return nullptr;
  char* const mapped = map_file(file, range, at);
  close(file);
  return mapped;
}

void free_shared_range(const SharedRange& range) {
  // Memory that cannot be freed now is freed when the process ends.
  (void)fallocate(
      static_cast<int>(range.object), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.offset),
      static_cast<off_t>(range.size));
}

#else

std::optional<SharedRange> create_shared_range(size_t size) {
  const std::lock_guard<std::mutex> lock(names().mutex);
  static const int error = std::atexit(&unlink_names);
  if (error != 0) return std::nullopt;
  std::random_device random;
  const SharedRange made{getpid(), 0, (static_cast<uint64_t>(random()) << 32) | random(), 0, size};
  const auto name = object_name(made);
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0) return std::nullopt;
  const bool sized = ftruncate(file, static_cast<off_t>(size)) == 0;
  close(file);
  if (!sized) {
    shm_unlink(name.c_str());
    return std::nullopt;
  }
  names().all.insert(name);
  return made;
}

char* map_shared_range(const SharedRange& range, char* at) {
  const int file = shm_open(object_name(range).c_str(), O_RDWR, 0);
  if (file < 0) return nullptr;
  struct stat status{};
  char* const mapped = fstat(file, &status) == 0 && is_within(status, range) ? map_file(file, range, at) : nullptr;
  close(file);
  return mapped;
}

void free_shared_range(const SharedRange& range) {
  const std::lock_guard<std::mutex> lock(names().mutex);
  const auto name = object_name(range);
  shm_unlink(name.c_str());
  names().all.erase(name);
}

#endif

void throw_no_shared_memory() {
  constexpr int kCudaErrorMemoryAllocation = 2;
  throw_accelerator_error(
      kCudaErrorMemoryAllocation,
      "CUDA error: out of memory\nThe system has no memory to be shared with other processes.\n");
}

void unmap_shared_range(const SharedRange& range, char* base) {
  munmap(base, range.size);
}

}  // namespace hostdevice
