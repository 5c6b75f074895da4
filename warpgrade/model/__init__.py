"""The CPU tier: Triton kernels interpreted under a memory sanitizer. Imported lazily, by the Worker alone."""
