from functools import partial


@triton.jit
def sum_a_whole_row(x, out, N, WIDTH: tl.constexpr):
    # one block that is wide enough for the whole row, or a loop where that would be too wide
    row = tl.program_id(0).to(tl.int64)
    x += row * N
    total = 0.0
    for start in range(0, N, WIDTH):
        cols = start + tl.arange(0, WIDTH)
        total += tl.sum(tl.load(x + cols, mask=cols < N, other=0).to(tl.float32))
    tl.store(out + row, total)


def launch(width_limit, x):
    rows, columns = x.shape
    width = min(width_limit, triton.next_power_of_2(max(columns, 1)))
    out = torch.empty((rows,), dtype=torch.float32, device=x.device)
    sum_a_whole_row[lambda meta: (rows,)](x, out, columns, WIDTH=width)
    return out


row_sum = partial(launch, 8192)
