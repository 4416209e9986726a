// Launches: blocks go over the cores, in the order of the stream.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "host_cuda/block.h"
#include "host_cuda/counts.h"
#include "host_cuda/kernel_abi.h"
#include "host_cuda/shared.h"

struct CUstream_st;

#pragma GCC visibility push(hidden)
namespace host_cuda {

constexpr size_t kSharedLimit = 48 << 10, kSharedOptIn = 227 << 10;
// What cudaFuncSetAttribute allowed. For the library, not for one kernel: a launch does not know its function's
// address.
inline std::atomic<size_t> shared_allowed{kSharedLimit};

inline unsigned cores() {
  static const unsigned n = [] {
    unsigned found = std::thread::hardware_concurrency();
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) found = static_cast<unsigned>(CPU_COUNT(&set));
#endif
    if (const char* said = getenv("OMP_NUM_THREADS")) {
      const int asked = atoi(said);
      if (asked > 0) found = static_cast<unsigned>(asked);
    }
    return found ? found : 1u;
  }();
  return n;
}

// The pointers among the arguments of a kernel, up to a number.
struct Pointers {
  std::array<const void*, 32> all;
  size_t count = 0;
  template <class T>
  void add(const T& argument) {
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>)
      if (count < all.size()) all[count++] = const_cast<const void*>(static_cast<const volatile void*>(argument));
  }
};

struct Work {
  virtual ~Work() = default;
  virtual void run_block() = 0;
  virtual Pointers list_pointers() const = 0;
  Launch launch{};
  bool is_cooperative = false;
  std::atomic<uint64_t> next{0};
  std::vector<uint32_t> order;  // of blocks, if it is not that of their numbers
  std::atomic<bool> stop{false};
  Sample sample;
  std::mutex mutex;
  std::exception_ptr error;
};

inline std::mutex& workers_mutex() {
  static auto* m = new std::mutex;
  return *m;
}
inline std::vector<Worker*>& idle_workers() {
  static auto* all = new std::vector<Worker*>;
  return *all;
}

// Runs blocks until none is left.
inline void take_blocks(Work& work) {
  Worker* w = nullptr;
  {
    const std::lock_guard<std::mutex> lock(workers_mutex());
    auto& idle = idle_workers();
    if (!idle.empty()) {
      w = idle.back();
      idle.pop_back();
    }
  }
  if (!w) w = new Worker;
  w->launch = &work.launch;
  w->error = nullptr;
  w->watch.begin();
  w->allocations.forget();
  if (w->dynamic_bytes < work.launch.shared || !w->dynamic) {
    w->dynamic.reset(new char[work.launch.shared + 256 + 2 * kGuard]);
    w->dynamic_bytes = work.launch.shared;
  }
  Worker* const before = worker;
  worker = w;
  const dim3 g = work.launch.grid;
  const uint64_t blocks = uint64_t{g.x} * g.y * g.z;
  const uint64_t threads = uint64_t{work.launch.block.x} * work.launch.block.y * work.launch.block.z;
  const uint64_t share = work.launch.grid_barrier
      ? 1
      : std::max<uint64_t>(1, std::min<uint64_t>(blocks / (uint64_t{cores()} * 8), 65536 / threads));
  while (!work.stop.load(std::memory_order_relaxed)) {
    const uint64_t first = work.next.fetch_add(share), last = std::min(blocks, first + share);
    if (first >= blocks) break;
    for (uint64_t n = first; n < last && !w->error && standing() == cudaSuccess; ++n) {
      const uint64_t i = work.order.empty() ? n : work.order[n];
      w->block = {
          static_cast<unsigned>(i % g.x), static_cast<unsigned>(i / g.x % g.y), static_cast<unsigned>(i / g.x / g.y)};
      w->counts = work.sample.find(i);
      try {
        work.run_block();
      } catch (const Ended&) {
      } catch (...) {
        w->error = std::current_exception();
      }
    }
    w->counts = nullptr;
    if (w->error || standing() != cudaSuccess) work.stop.store(true);
  }
  worker = before;
  const std::lock_guard<std::mutex> lock(workers_mutex());
  if (w->error && !work.error) work.error = w->error;
  w->error = nullptr;
  if (idle_workers().size() < cores())
    idle_workers().push_back(w);
  else
    delete w;  // of a cooperative launch, which has one for each block
}
// A thread for each block of a cooperative launch.
inline void run_together(Work& work, uint64_t blocks) {
  GridBarrier barrier(blocks);
  work.launch.grid_barrier = &barrier;
  const auto take = [&] {
    take_blocks(work);
    barrier.leave();
  };
  std::vector<std::thread> threads;
  threads.reserve(blocks);
  try {
    while (threads.size() + 1 < blocks) threads.emplace_back(take);
    take();
  } catch (const std::system_error&) {  // the system has no more threads
    work.error = std::current_exception();
    work.stop.store(true);
    for (uint64_t i = threads.size(); i < blocks; ++i) barrier.leave();
  }
  for (auto& thread : threads) thread.join();
  work.launch.grid_barrier = nullptr;
}

// Threads that wait for launches. They are never joined: the process ends with them.
class Pool {
 public:
  static Pool& get() {
    static Pool* pool = new Pool;
    if (pool->process_ != getpid()) pool = new Pool;  // a forked child has none of its parent's threads
    return *pool;
  }
  void run(Work& work) {
    const std::unique_lock<std::mutex> mine(launching_, std::try_to_lock);
    if (!mine.owns_lock()) return take_blocks(work);  // another thread's launch has the pool
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (started_ + 1 < cores()) {
        ++started_;
        std::thread(&Pool::serve, this).detach();
      }
      work_ = &work;
      ++generation_;
      busy_ = started_;
    }
    wake_.notify_all();
    take_blocks(work);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
    work_ = nullptr;
  }

 private:
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      Work* work = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_ != seen && work_; });
        seen = generation_;
        work = work_;
      }
      take_blocks(*work);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  const pid_t process_ = getpid();
  std::mutex launching_, mutex_;
  std::condition_variable wake_, done_;
  unsigned started_ = 0, busy_ = 0;
  uint64_t generation_ = 0;
  Work* work_ = nullptr;
};

// The device's context is of no use any more; whoever waits for it is told.
inline void tell_failure() {
  const KernelAbi* device = kernel_abi();
  if (!device) return;
  const std::string words = std::string(cudaGetErrorString(standing())) + "\nSearch for `" +
      cudaGetErrorName(standing()) +
      "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.";
  device->report_failure(standing(), words.c_str());
}

inline void run_work(void* p) {
  auto& work = *static_cast<Work*>(p);
  if (standing() != cudaSuccess || !work.sample.runs()) return;
  work.next.store(0);
  work.stop.store(false);
  work.error = nullptr;
  const uint64_t blocks = uint64_t{work.launch.grid.x} * work.launch.grid.y * work.launch.grid.z;
  const uint64_t threads = uint64_t{work.launch.block.x} * work.launch.block.y * work.launch.block.z;
  const Checks checks(work.order, blocks);
  work.sample.begin(blocks, threads);
  // Waking others takes some microseconds, a few thousand threads as long.
  if (work.is_cooperative && blocks > 1)
    run_together(work, blocks);
  else if (blocks == 1 || cores() == 1 || blocks * threads < 8192 || checks.is_sequential)
    take_blocks(work);
  else
    Pool::get().run(work);
  work.sample.end();
  fflush(stdout);
  if (standing() != cudaSuccess) tell_failure();
  if (work.error) std::rethrow_exception(std::exchange(work.error, nullptr));
}
inline void drop_work(void* p) {
  delete static_cast<Work*>(p);
}

inline cudaError_t checked_launch(const Launch& l) {
  const uint64_t threads = uint64_t{l.block.x} * l.block.y * l.block.z;
  if (threads == 0 || threads > 1024 || l.block.z > 64) return cudaErrorInvalidConfiguration;
  if (!l.grid.x || !l.grid.y || !l.grid.z || l.grid.x > 0x7fffffffu || l.grid.y > 65535 || l.grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  if (l.shared > shared_allowed.load()) return cudaErrorInvalidValue;
  return standing();
}

inline cudaError_t launch_work(std::unique_ptr<Work> work) {
  if (worker)
    worker->fail(
        cudaErrorNotSupported, {nullptr, 0}, "launches the kernel %s: kernels that launch kernels are not supported",
        work->launch.name);
  const cudaError_t wrong = checked_launch(work->launch);
  if (wrong != cudaSuccess) return returned(wrong);
  void* stream = work->launch.stream;
  const char* name = work->launch.name;
  if (const KernelAbi* device = kernel_abi()) {
    const Pointers pointers = work->list_pointers();
    Timed timed(name, stream, pointers.all.data(), pointers.count);
    const auto code = static_cast<cudaError_t>(
        device->launch(stream, name, &run_work, &drop_work, work.release(), pointers.all.data(), pointers.count));
    timed.end();
    return returned(code);
  }
  run_work(work.get());
  return cudaSuccess;
}

struct Config {
  dim3 grid, block;
  size_t shared;
  void* stream;
  bool is_cooperative = false;
};
inline Config config(dim3 grid, dim3 block, size_t shared = 0, CUstream_st* stream = nullptr) {
  // The named default streams are the default stream.
  return {grid, block, shared, reinterpret_cast<uintptr_t>(stream) <= 2 ? nullptr : stream};
}

template <class... A>
Pointers find_pointers(const std::tuple<A...>& arguments) {
  Pointers found;
  std::apply([&](const A&... each) { (found.add(each), ...); }, arguments);
  return found;
}

template <class Call, class... A>
struct CallWork final : Work {
  Call call;
  std::tuple<A...> arguments;
  template <class... G>
  CallWork(const Call& c, G&&... given) : call(c), arguments(std::forward<G>(given)...) {}
  void run_block() override {
    std::apply(call, arguments);
  }
  Pointers list_pointers() const override {
    return find_pointers(arguments);
  }
};

// `kernel<<<config>>>` becomes one of these; what follows is its argument list.
template <class Call>
struct Launcher {
  const char* name;
  Config config;
  Call call;
  template <class... A>
  cudaError_t operator()(A&&... arguments) const {
    auto work = std::make_unique<CallWork<Call, std::decay_t<A>...>>(call, std::forward<A>(arguments)...);
    work->launch = {name, config.grid, config.block, config.shared, config.stream};
    return launch_work(std::move(work));
  }
};
template <class Call>
Launcher<Call> launcher(const char* name, Config config, Call call) {
  return {name, config, call};
}

// Arguments as the driver takes them: an array of addresses.
template <class... A>
struct PackedWork final : Work {
  void (*kernel)(A...);
  std::tuple<std::decay_t<A>...> arguments;
  template <size_t... I>
  PackedWork(void (*k)(A...), void** from, std::index_sequence<I...>)
      : kernel(k), arguments(*static_cast<std::decay_t<A>*>(from[I])...) {}
  void run_block() override {
    std::apply(kernel, arguments);
  }
  Pointers list_pointers() const override {
    return find_pointers(arguments);
  }
};
template <class... A>
cudaError_t launch_packed(const char* name, void (*kernel)(A...), const Config& config, void** arguments) {
  auto work = std::make_unique<PackedWork<A...>>(kernel, arguments, std::index_sequence_for<A...>());
  work->launch = {name, config.grid, config.block, config.shared, config.stream};
  work->is_cooperative = config.is_cooperative;
  return launch_work(std::move(work));
}

// What a translated kernel calls with its body. Where no function that the body reaches asks which thread it is or
// waits for others (`Plain`), the threads are a loop that the compiler may vectorise.
template <bool Plain, class F>
inline void run_block(const F& body) {
  Worker& w = *worker;
  const dim3 n = w.launch->block, grid = w.launch->grid;
  if constexpr (Plain) {
    const uint3 block = w.block;
    for (unsigned z = 0; z < n.z; ++z)
      for (unsigned y = 0; y < n.y; ++y)
        for (unsigned x = 0; x < n.x; ++x) {
          F mine(body);  // a thread's parameters are its own
          mine(uint3{x, y, z}, block, n, grid);
        }
  } else {
    w.run(
        &body,
        [](const void* f, Worker& me) {
          F mine(*static_cast<const F*>(f));
          const auto run = [&] { mine(me.thread, me.block, me.launch->block, me.launch->grid); };
#ifdef HOST_CUDA_CHECKED
          me.run_watched(run);
#else
          run();
#endif
        },
        n.x * n.y * n.z);
  }
}

}  // namespace host_cuda
#pragma GCC visibility pop

template <class... P>
cudaError_t cudaLaunchKernel(
    void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, size_t shared = 0, void* stream = nullptr) {
  return host_cuda::launch_packed("cudaLaunchKernel", kernel, {grid, block, shared, stream}, arguments);
}
