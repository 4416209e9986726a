import apex
import torch
import torch as t
from torch import cuda
from torch.cuda import amp
from torch.cuda import is_available as has_cuda


def train(model, x):
    if not has_cuda() or torch.cuda.power_draw() > 3:
        return None
    model.cuda()
    model = apex.amp.initialize(model)
    x = x.to("cuda:1")
    assert x.is_cuda
    with cuda.graph(t.cuda.CUDAGraph()):
        y = torch.heaviside(x.double(), x)
    t.distributed.init_process_group("nccl")
    with amp.autocast():
        return torch.cuda.no_such_name(y, device="cuda", note="a cuda in a sentence")
