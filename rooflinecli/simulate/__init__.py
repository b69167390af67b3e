"""A discrete-event simulation of an engine's scheduler over step times: a load in, the latencies of every request out.

`policies` (of schedulers) and `routers` are registries: each public function is one of them. Nothing here prices a kernel;
`step_times` calls the engine once and keeps tables.
"""
