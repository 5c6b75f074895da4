"""What a machine without a GPU can say of a Triton kernel: `interpreter` and `sanitizer` run it, `compiled` and `facts`
compile it for a GPU that is not there. Imported lazily, by the Worker alone."""
