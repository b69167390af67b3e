"""The engine: what a model costs under a plan, phase by phase.

    answer(Scene(request), plan, "decode").time_s

A scene is a request with its defaults filled in and its numbers lifted; a plan is how the model is laid over devices.
"""
