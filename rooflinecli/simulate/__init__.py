"""A discrete-event simulation of an engine's scheduler over step times: a load in, the latencies of every request out.

`policies/` (scheduler policies) and `routers/` are registries: one file is one of them. Nothing here prices a kernel;
`step_times` calls the engine once and keeps tables.
"""
