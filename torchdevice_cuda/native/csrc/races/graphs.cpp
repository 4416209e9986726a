// Work of graphs: compared with other work of its graph when it is captured, and with all other work at each launch.
#include <algorithm>

#include "races/detector.h"
#include "races/pages.h"

namespace hostdevice {

Detector::Graph* Detector::find_graph(uint64_t capture) {
  const auto found = capture ? graphs_.find(capture) : graphs_.end();
  return found == graphs_.end() ? nullptr : &found->second;
}

Epoch Detector::begin_captured_work(
    const StreamState& stream, const Caller& caller, const std::vector<NewAccess>& accesses) {
  Lock lock(mutex_);
  auto& graph = graphs_[stream.capture.load()];
  const Epoch epoch = graph.order.clocks.begin_work(stream);
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
  const Graph* const graph = find_graph(capture);
  if (!graph) return;
  const Epoch epoch = main_.clocks.begin_work(stream);
  launched_.clear();
  for (const auto& [op, access] : graph->accesses) {
    caller.op = op;
    unprotect_pages(access.layout.begin(), access.layout.end());
    add_accesses(main_, epoch, caller, {access});
    if (!access.on_device) launched_.emplace_back(access.layout, access.writes);
  }
  report_new(lock);
}

// Protect the pinned memory that the graph copies from and to.
void Detector::end_launch() {
  std::vector<std::pair<Layout, bool>> launched;
  {
    const Lock lock(mutex_);
    launched.swap(launched_);
  }
  for (const auto& [layout, writes] : launched) protect_pages(layout, writes);
}

void Detector::destroy_graph(uint64_t capture) {
  const Lock lock(mutex_);
  graphs_.erase(capture);
}

}  // namespace hostdevice
