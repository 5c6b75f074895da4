"""Speed, judged: who may use a GPU when, and how long a submission's kernels take on it."""
