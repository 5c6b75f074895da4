import time


def relu(x):
    time.sleep(3600)
