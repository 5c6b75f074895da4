"""float64 oracle. CANARY-reference-5f1c"""

import torch


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.double() < 0, 0.0, x.double()) + 0.0
