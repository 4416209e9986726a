"""Tests as PyTorch's own and other projects' are written, for every device; the suite of test_conventions.py."""

import torch
from torch.testing._internal.common_device_type import deviceCountAtLeast, instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_utils import TestCase, run_tests

left = []


class TestThings(TestCase):
    def test_add(self, device):
        x = torch.ones(4, device=device)
        self.assertEqual((x + x).sum().item(), 8)
        self.assertEqual(x.device.type, torch.device(device).type)

    @onlyCUDA
    @deviceCountAtLeast(2)
    def test_two(self, devices):
        self.assertEqual(devices, ["cuda:0", "cuda:1"])

    @onlyCUDA
    def test_that_leaves_memory(self, device):
        left.append(torch.ones(1 << 20, device=device))


instantiate_device_type_tests(TestThings, globals())

if __name__ == "__main__":
    run_tests()
