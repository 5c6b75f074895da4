import os
import socket


def relu(x):
    descriptors = [os.memfd_create("more") for _ in range(200)]
    socket.send_fds(wire(), [frame(returned([0]))], descriptors)
    return x
