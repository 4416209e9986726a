"""accelerate launch: the loop of its documentation."""

from _training import BATCH, EPOCHS, make_data, make_model, optimizer_of, report
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader

if __name__ == "__main__":
    accelerator = Accelerator()
    model = make_model()
    loader = DataLoader(make_data(), batch_size=BATCH // accelerator.num_processes)
    model, optimizer, loader = accelerator.prepare(model, optimizer_of(model), loader)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(mse_loss(model(x), y))
            optimizer.step()
    devices = gather_object([str(accelerator.device)])
    if accelerator.is_main_process:
        report(model.parameters(), devices=devices, kind=str(accelerator.distributed_type))
    accelerator.end_training()
