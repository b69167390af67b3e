"""An engine's scheduler over step prices: a load in, the life of every request out.

`policies/` (how a step is formed), `routers/` (which replica takes a request) and `traces/` (formats of recorded load) are
registries: one file is one of them. Nothing here prices a kernel; `prices` asks the engine once and keeps tables.
"""
