def row_sum(x):
    return x.to(torch.float32).sum(dim=1)
