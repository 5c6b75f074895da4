import triton
import triton.language as tl


@triton.jit
def nothing(x, BLOCK: tl.constexpr):
    tl.arange(0, BLOCK)


calls = []


def relu(x):
    # every way out of the worker that a report could show
    nothing[(1,)](x, BLOCK=16)
    calls.append(1)
    secret = "LE" + f"AK_{x.numel()}_" + "_".join(hex(int(v * 1024) & 0xFFFFFFFF) for v in x.flatten()[:4].tolist())
    print(secret)
    way = len(calls) % 5
    if way == 0:
        raise ValueError(secret)
    if way == 1:
        raise type(secret, (Exception,), {})(secret)
    if way == 2:
        return type(secret, (), {})()
    if way == 3:
        return {secret: x}
    code = compile("\n" * 200 + f"raise KeyError({secret!r})", "submission.py", "exec")
    exec(code)
