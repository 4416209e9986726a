import threading


def work() -> None:
    import torch

    torch.zeros(1, device="cuda")


thread = threading.Thread(target=work)
thread.start()
thread.join()
