"""What a machine without a GPU can say of a kernel: run it interpreted, compile it for a GPU that is not there."""
