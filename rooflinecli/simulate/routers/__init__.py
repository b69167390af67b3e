"""Routers: `choose(job, replicas)` gives the place of a request. LOOKS: whether it reads their state. One file is one router."""
