import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)).cuda()
optimizer, scaler = torch.optim.AdamW(model.parameters(), fused=True), torch.amp.GradScaler("cuda")
data = TensorDataset(torch.randn(8, 3, 8, 8), torch.randint(4, (8,)))
for images, labels in DataLoader(data, batch_size=4, pin_memory=True, num_workers=1):
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print("done")
