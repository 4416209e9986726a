// Work of graphs: compared with other work of its graph when it is captured, and with all other work at each launch.
#include <algorithm>
#include <utility>

#include "races/detector.h"
#include "races/pages.h"

namespace hostdevice {

Detector::Graph* Detector::find_graph(uint64_t capture) {
  const auto found = capture ? graphs_.find(capture) : graphs_.end();
  return found == graphs_.end() ? nullptr : &found->second;
}

Epoch Detector::begin_in_graph(Graph& graph, const StreamState& stream, const Caller& caller) {
  const Epoch epoch = graph.order.clocks.begin_work(stream);
  graph.work.push_back({epoch, graph.order.clocks.of(epoch.actor).clock, caller, {}});
  return epoch;
}

Epoch Detector::begin_captured_work(
    const StreamState& stream, const Caller& caller, const std::vector<NewAccess>& accesses) {
  Lock lock(mutex_);
  auto& graph = graphs_[stream.capture.load()];
  const Epoch epoch = begin_in_graph(graph, stream, caller);
  add_to_graph(graph, epoch, caller, accesses);
  report_new(lock);
  return epoch;
}

void Detector::continue_captured_work(
    const StreamState& stream, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses) {
  Lock lock(mutex_);
  add_to_graph(graphs_[stream.capture.load()], epoch, caller, accesses);
  report_new(lock);
}

void Detector::add_to_graph(Graph& graph, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses) {
  add_accesses(graph.order, epoch, caller, accesses);
  const auto is_this = [&](const CapturedWork& work) {
    return work.epoch.actor == epoch.actor && work.epoch.tick == epoch.tick;
  };
  auto& known = std::find_if(graph.work.rbegin(), graph.work.rend(), is_this)->accesses;
  known.insert(known.end(), accesses.begin(), accesses.end());
  for (const auto& access : accesses) {
    if (access.layout.is_empty()) continue;
    const std::string* op = intern_name(*caller.op + " of a graph");
    // Other work is ordered with the graph as a whole, so one access suffices: a write if there is one.
    const auto [found, is_new] =
        graph.by_address.try_emplace({access.layout.begin(), access.layout.end()}, graph.accesses.size());
    if (!is_new && graph.accesses[found->second].second.layout == access.layout) {
      auto& known = graph.accesses[found->second];
      if (access.writes && !known.second.writes) known = {op, access};
    } else {
      graph.accesses.emplace_back(op, access);
    }
  }
}

void Detector::launch_graph(uint64_t capture, const StreamState& stream) {
  Caller caller = find_caller(nullptr);
  Lock lock(mutex_);
  Graph* const graph = find_graph(capture);
  if (!graph) return;
  const Epoch epoch = graph->launched = main_.clocks.begin_work(stream);
  launched_.clear();
  for (const auto& [op, access] : graph->accesses) {
    caller.op = op;
    unprotect_pages(access.layout.begin(), access.layout.end());
    add_accesses(main_, epoch, caller, {access});
    if (!access.on_device) launched_.emplace_back(access.layout, access.writes);
  }
  report_new(lock);
}

void Detector::capture_kernel(const StreamState& stream, const char* name) {
  const Caller caller = find_caller(intern_name(name));
  const Lock lock(mutex_);
  auto& graph = graphs_[stream.capture.load()];
  graph.kernels.push_back(graph.work.size());
  begin_in_graph(graph, stream, caller);
}

void Detector::run_captured_kernel(uint64_t capture, size_t number, const std::vector<ObservedAccess>& accesses) {
  const auto found = list_observed(accesses);
  Caller caller = find_caller(nullptr);
  Lock lock(mutex_);
  Graph* const graph = find_graph(capture);
  if (!graph) return;
  CapturedWork& kernel = graph->work[graph->kernels[number]];
  const auto is_same = [](const NewAccess& a, const NewAccess& b) {
    return a.layout == b.layout && a.writes == b.writes;
  };
  if (!std::equal(found.begin(), found.end(), kernel.accesses.begin(), kernel.accesses.end(), is_same)) {
    kernel.accesses = found;
    graph->has_new_accesses = true;
  }
  caller.op = intern_name(*kernel.caller.op + " of a graph");
  add_accesses(main_, graph->launched, caller, found);
  report_new(lock, Raises::Later);
}

void Detector::compare_kernels(const Graph& graph) {
  Order order;
  order.clocks = graph.order.clocks;
  for (const auto& work : graph.work) {
    order.clocks.restore(work.epoch.actor, work.clock);
    add_accesses(order, work.epoch, work.caller, work.accesses);
  }
}

// Protect the pinned memory that the graph copies from and to.
void Detector::end_launch(uint64_t capture) {
  std::vector<std::pair<Layout, bool>> launched;
  Lock lock(mutex_);
  launched.swap(launched_);
  Graph* const graph = find_graph(capture);
  if (graph && std::exchange(graph->has_new_accesses, false)) compare_kernels(*graph);
  report_new(lock, Raises::Later);
  if (lock.owns_lock()) lock.unlock();
  for (const auto& [layout, writes] : launched) protect_pages(layout, writes);
}

void Detector::destroy_graph(uint64_t capture) {
  const Lock lock(mutex_);
  graphs_.erase(capture);
}

}  // namespace hostdevice
