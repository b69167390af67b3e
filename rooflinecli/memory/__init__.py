"""Bytes on the fullest device: parameters and their state, activations, KV cache."""

from rooflinecli.memory.activations import (
    NOTHING,
    FrameworkSavedTensors,
    backward_working_set,
    inference_activations,
    layer_activations,
    offloaded_activations,
    saved_input_bytes,
    training_activations,
)
from rooflinecli.memory.kv_cache import kv_cache
from rooflinecli.memory.optimizer_matrices import orthogonalization_flops, preconditioner_bytes, preconditioning_flops
from rooflinecli.memory.parameters import (
    DeviceParameters,
    device_parameters,
    host_copy,
    partitioned,
    resident_weight_bytes,
    trainable_parameters,
    training_state_bytes,
    weights,
    with_mtp_layers,
)

__all__ = [
    "NOTHING",
    "DeviceParameters",
    "FrameworkSavedTensors",
    "backward_working_set",
    "device_parameters",
    "host_copy",
    "inference_activations",
    "kv_cache",
    "layer_activations",
    "offloaded_activations",
    "orthogonalization_flops",
    "partitioned",
    "preconditioner_bytes",
    "preconditioning_flops",
    "resident_weight_bytes",
    "saved_input_bytes",
    "trainable_parameters",
    "training_activations",
    "training_state_bytes",
    "weights",
    "with_mtp_layers",
]
