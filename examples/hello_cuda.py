"""Print the properties that a CUDA program looks at first."""

import torch

print("CUDA available:", torch.cuda.is_available())
print("devices:", torch.cuda.device_count(), "current:", torch.cuda.current_device())
properties = torch.cuda.get_device_properties(0)
print("name:", properties.name)
print("capability:", torch.cuda.get_device_capability(), "multiprocessors:", properties.multi_processor_count)
free, total = torch.cuda.mem_get_info()
print(f"memory: {free / 2**30:.1f} GiB free of {total / 2**30:.1f} GiB")

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    start.record()
    torch.cuda._sleep(10_000_000)
    end.record()
end.synchronize()
print(f"a stream worked for {start.elapsed_time(end):.2f} ms, and is idle now: {stream.query()}")

torch.cuda.manual_seed_all(7)
print("seed:", torch.cuda.initial_seed())
print("CUDA version:", torch.version.cuda, "bf16:", torch.cuda.is_bf16_supported())
