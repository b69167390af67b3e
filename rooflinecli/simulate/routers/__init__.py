"""Which replica takes a request: `choose(job, replicas)` gives its place. LOOKS: whether it looks at their state. One file is one router."""
