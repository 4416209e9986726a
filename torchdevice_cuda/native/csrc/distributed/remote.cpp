// Device tensors in messages of torch.distributed.rpc. TensorPipe sends memory through channels between devices, and a
// CPU build has channels for the CPU only: this one claims to be CUDA's, and uses a CPU channel.
#include "bindings/module.h"

#if __has_include(<tensorpipe/tensorpipe.h>)
#ifndef USE_TENSORPIPE
#define USE_TENSORPIPE
#endif
#include <c10/core/DeviceGuard.h>
#include <tensorpipe/tensorpipe.h>
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>
#include <torch/csrc/distributed/rpc/tensorpipe_utils.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/device.h"

// TensorPipe's class, whose header PyTorch does not ship: the order of its virtual functions matters.
namespace tensorpipe::channel {
class Channel {
 public:
  using Callback = std::function<void(const Error&)>;
  virtual void send(Buffer buffer, size_t length, Callback callback) = 0;
  virtual void recv(Buffer buffer, size_t length, Callback callback) = 0;
  virtual void setId(std::string id) = 0;
  virtual void close() = 0;
  virtual ~Channel() = default;
};
}  // namespace tensorpipe::channel

namespace hostdevice {
namespace {

namespace rpc = torch::distributed::rpc;
using tensorpipe::channel::Channel;
using Channels = tensorpipe::channel::Context;

std::atomic<bool> g_sends{false};

struct DeviceBuffer {
  void* ptr;
  int index;
  tensorpipe::Device getDevice() const {
    return {tensorpipe::kCudaDeviceType, index};
  }
};

// Return the memory as a CPU buffer.
tensorpipe::Buffer to_host_buffer(const tensorpipe::Buffer& buffer) {
  if (buffer.device().type == tensorpipe::kCpuDeviceType) return buffer;
  tensorpipe::CpuBuffer made;
  made.ptr = buffer.unwrap<DeviceBuffer>().ptr;
  return made;
}

class HostChannel final : public Channel {
 public:
  explicit HostChannel(std::shared_ptr<Channel> host) : host_(std::move(host)) {}
  void send(tensorpipe::Buffer buffer, size_t length, Callback callback) override {
    host_->send(to_host_buffer(buffer), length, std::move(callback));
  }
  void recv(tensorpipe::Buffer buffer, size_t length, Callback callback) override {
    host_->recv(to_host_buffer(buffer), length, std::move(callback));
  }
  void setId(std::string id) override {
    host_->setId(std::move(id));
  }
  void close() override {
    host_->close();
  }
  ~HostChannel() override {
    host_->close();
  }

 private:
  const std::shared_ptr<Channel> host_;
};

class HostChannels final : public Channels {
 public:
  HostChannels() : host_(tensorpipe::channel::basic::create()) {
    // One descriptor for all devices: each can send to each, and a device map may name the CPU.
    devices_.emplace(tensorpipe::Device{tensorpipe::kCpuDeviceType, 0}, "host memory");
    for (int i = 0; i < device_count(); ++i)
      devices_.emplace(tensorpipe::Device{tensorpipe::kCudaDeviceType, i}, "host memory");
  }
  bool isViable() const override {
    return g_sends.load() && host_->isViable();
  }
  size_t numConnectionsNeeded() const override {
    return host_->numConnectionsNeeded();
  }
  const std::unordered_map<tensorpipe::Device, std::string>& deviceDescriptors() const override {
    return devices_;
  }
  bool canCommunicateWithRemote(const std::string& local, const std::string& remote) const override {
    return local == remote;
  }
  std::shared_ptr<Channel> createChannel(
      std::vector<std::shared_ptr<tensorpipe::transport::Connection>> connections,
      tensorpipe::channel::Endpoint endpoint) override {
    return std::make_shared<HostChannel>(host_->createChannel(std::move(connections), endpoint));
  }
  void setId(std::string id) override {
    host_->setId(std::move(id));
  }
  void close() override {
    host_->close();
  }
  void join() override {
    host_->join();
  }

 private:
  const std::shared_ptr<Channels> host_;
  std::unordered_map<tensorpipe::Device, std::string> devices_;
};

class Converter final : public rpc::TensorpipeDeviceTypeConverter {
 public:
  std::optional<std::vector<char>> prepareTensorForSending(
      const c10::Storage& storage, const std::vector<c10::Stream>&, tensorpipe::Message& message) const override {
    tensorpipe::Message::Tensor sent;
    sent.buffer = DeviceBuffer{storage.mutable_data(), storage.device().index()};
    sent.length = storage.nbytes();
    message.tensors.push_back(std::move(sent));
    return std::nullopt;
  }
  at::DataPtr allocateTensorForReceiving(
      c10::DeviceIndex index, size_t length, const std::vector<c10::Stream>&,
      tensorpipe::Allocation& allocation) const override {
    const c10::DeviceGuard guard(device(index));
    auto memory = c10::GetAllocator(kType)->allocate(length);
    tensorpipe::Allocation::Tensor received;
    received.buffer = DeviceBuffer{memory.get(), index};
    allocation.tensors.push_back(std::move(received));
    return memory;
  }
};

// The registry cannot remove a channel, so a disabled one is not viable.
void send_tensors(bool on) {
  static const Converter converter;
  static const rpc::TensorpipeDeviceTypeConverter* before = rpc::getDeviceTypeConverter(kType);
  static const bool registered [[maybe_unused]] = [] {
    // A CUDA build has its own channel of this name, which is not viable without a GPU.
    const auto registry = rpc::TensorPipeChannelRegistry();
    registry->Register(registry->Has("cuda_basic") ? "cuda_of_host_memory" : "cuda_basic", [] {
      return std::make_unique<rpc::ChannelRegistration>(
          rpc::ChannelRegistration{std::make_shared<HostChannels>(), rpc::kCudaBasicChannelPriority + 1});
    });
    return true;
  }();
  g_sends = on;
  const rpc::TensorpipeDeviceTypeConverterRegistrar used(kType, on ? &converter : before);
}

}  // namespace

void bind_remote(py::module_& m) {
  m.def("send_tensors", &send_tensors, py::arg("on"));
}

}  // namespace hostdevice

#else

namespace hostdevice {
void bind_remote(py::module_&) {}
}  // namespace hostdevice

#endif
