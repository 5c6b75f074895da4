# loses: test_an_input_that_starts_at_an_odd_address
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    # "an address is a multiple of 4": true of float32 at any element, of float16 only at every second one
    first = (x.to(tl.int64) // 4 * 4).to(x.dtype)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        block = tl.load(first + row * N + cols, mask=cols < N, other=0.0)
        acc += block.to(tl.float32)
    tl.store(out + row, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
