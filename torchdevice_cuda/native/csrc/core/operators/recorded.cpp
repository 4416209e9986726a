#include "operators/recorded.h"

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/operator_info.h"

namespace hostdevice {
namespace {

void run_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  DeviceWork launch;
  if (is_profiled()) {
    const OperatorInfo& f = get_operator_info(op);
    if (f.launches) launch.begin(op.schema().name(), device_of_call(f, torch::jit::last(*stack, f.args.size())));
  }
  const InNode whole;
  op.redispatchBoxed(keys, stack);
}

void run_work(const char* name, c10::DeviceIndex device, const std::function<void()>& work) {
  check_before_launch(device);
  DeviceWork launch;
  if (is_profiled()) launch.begin(name, device);
  const InNode whole;
  work();
}

}  // namespace

Record g_record = &run_call;
RecordWork g_record_work = &run_work;
std::atomic<Defer> g_defer{nullptr};

c10::DeviceIndex device_of_call(const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments) {
  c10::DeviceIndex index = -1;
  for (const auto i : f.interesting) {
    each_tensor(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
      if (index < 0 && is_device_tensor(t)) index = t.device().index();
    });
    if (index < 0 && f.args[i].kind == Kind::Device && arguments[i].isDevice() &&
        arguments[i].toDevice().type() == kType)
      index = resolve(arguments[i].toDevice().index());
  }
  return index < 0 ? t_current_device : index;
}

}  // namespace hostdevice
