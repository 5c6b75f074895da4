early = [wire().sendall(frame(returned([0]))) for _ in range(3)]


def relu(x):
    return x
