"""What is resident on the fullest device: parameters and their state, activations, the cache of sequences."""

from rooflinecli.memory.activations import (
    NOTHING,
    Beside,
    inference_activations,
    layer_activations,
    offloaded_activations,
    saved_input,
    training_activations,
    working_set,
)
from rooflinecli.memory.kv_cache import kv_cache
from rooflinecli.memory.optimizer_matrices import orthogonalised_flops, preconditioner_bytes, preconditioning_flops
from rooflinecli.memory.parameters import (
    DeviceParameters,
    device_parameters,
    host_copy,
    partitioned,
    predicting,
    resident_weight,
    trained,
    training_state,
    weights,
)

__all__ = [
    "NOTHING",
    "Beside",
    "DeviceParameters",
    "device_parameters",
    "host_copy",
    "inference_activations",
    "kv_cache",
    "layer_activations",
    "offloaded_activations",
    "orthogonalised_flops",
    "partitioned",
    "preconditioner_bytes",
    "preconditioning_flops",
    "predicting",
    "resident_weight",
    "saved_input",
    "trained",
    "training_activations",
    "training_state",
    "weights",
    "working_set",
]
