import os


def relu(x):
    os.abort()
