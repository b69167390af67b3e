"""Real kernels on the machine at hand: time them, fit the engine's constants, write a hardware YAML, prove it.

    timing              how one number is measured
    device              what this machine is: platform, caches, clocks, versions
    shape_grids         the shapes of each suite, and which kernels this device can compile
    cases, kernels/     what is timed: a KernelCase is one kernel at one shape and dtype
    session             the resumable loop over cases, with its log
    fit, profile        constants from timings, and the hardware YAML that carries them
    model/              a transformer built from a model YAML, predicted and measured
    aot                 a compiled function on the roofline, its FLOPs and bytes counted by jaxpr_counter
    openai_load         a closed loop of requests against a running server

The only package that imports jax, and only inside its modules: importing `rooflinecli.measure` itself costs nothing.
"""
