"""The driver starts, and the device reports its properties."""

from __future__ import annotations

import dataclasses
import sys

from ..asking import Finding, expect, main, question


@question
def activation() -> Finding:
    """Import torch within the time limit, not at the top of the file: a driver may hang here."""
    from torchdevice_cuda import activation

    driver = activation.driver()
    import torch

    figures = {
        "driver": driver.name,
        "because": driver.reason,
        "passed over": driver.passed_over,
        "traits": [trait.name for trait in type(driver.traits) if trait in driver.traits],
        "described": driver.describe(),
        "torch": torch.__version__,
        "torch's commit": torch.version.git_version,
        "built": torch.__config__.show(),
        "changes in torch": len(activation.changes()),
        # Its UUID is derived from the machine's name, which is private.
        "devices": [
            {name: value for name, value in dataclasses.asdict(driver.facts(index)).items() if name != "uuid"}
            for index in range(driver.device_count())
        ],
    }
    return f"{driver.name}: {driver.reason}", figures


@question
def a_device_is_there() -> Finding:
    import torch

    expect(torch.cuda.is_available(), "torch.cuda.is_available() is false")
    expect(torch.cuda.device_count() > 0, "torch.cuda.device_count() is 0")
    name = torch.cuda.get_device_name(0)
    expect(name and "mps" not in name.lower(), f"the device is called {name!r}")
    return name


@question
def properties() -> Finding:
    import torch

    found = torch.cuda.get_device_properties(0)
    figures = {name: getattr(found, name) for name in ("total_memory", "multi_processor_count", "L2_cache_size")}
    # A virtual machine on Linux may not report its caches; every Mac does.
    known = [name for name in figures if sys.platform == "darwin" or name != "L2_cache_size"]
    lacking = [name for name in known if figures[name] <= 0]
    expect(not lacking, f"the device has no {', '.join(lacking)}")
    figures["capability"] = torch.cuda.get_device_capability(0)
    return figures


@question
def a_first_result() -> Finding:
    import torch

    made = torch.arange(6.0, device="cuda").reshape(2, 3)
    found = (made @ made.T).tolist()
    expect(found == [[5.0, 14.0], [14.0, 50.0]], f"the product is {found}")
    return None


if __name__ == "__main__":
    main()
