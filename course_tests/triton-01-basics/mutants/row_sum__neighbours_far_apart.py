# loses: test_speed
# tiers: gpu


@triton.jit
def row_sum_kernel(x, out, N, STEPS, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(0, STEPS):
        # lane i walks over its own STEPS columns: lanes that load together lie far apart
        cols = tl.arange(0, BLOCK) * STEPS + step
        acc += tl.load(x + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M:
        row_sum_kernel[(M,)](x, out, N, triton.cdiv(N, 1024), BLOCK=1024)
    return out
