"""How full a GPU's multiprocessor or a systolic array is, from the shape of the work alone."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_CUDA = "NVIDIA CUDA C++ Programming Guide, compute capabilities; CUDA occupancy calculator"
_KUNG = "Kung 1982, Why systolic architectures?"


@formula("w", "warps", _CUDA)
def warps_per_block(threads: Number, warp_size: Number) -> Number:
    """Warps a thread block occupies, the last one perhaps in part."""
    return num.ceil(threads / warp_size)


@formula("n_w", "blocks", _CUDA)
def blocks_by_warps(max_warps: Number, block_warps: Number) -> Number:
    """Blocks that fit the warp slots of a multiprocessor."""
    return num.floor(max_warps / block_warps)


@formula("M_b", "B", _CUDA + ": rounded up to the allocation unit, plus what the system reserves per block")
def shared_memory_per_block(requested: Number, reserved: Number, unit: Number) -> Number:
    """Shared memory a block really takes."""
    return num.ceil((requested + reserved) / unit) * unit


@formula("n_s", "blocks", _CUDA)
def blocks_by_shared_memory(per_sm: Number, per_block: Number) -> Number:
    """Blocks that fit the shared memory of a multiprocessor; a block that takes none counts as taking one byte."""
    return num.floor(per_sm / num.maximum(per_block, 1))


@formula("R_w", "registers", _CUDA + ": registers are allocated per warp in units of 256")
def registers_per_warp(per_thread: Number, warp_size: Number, unit: Number) -> Number:
    """Registers a warp really takes."""
    return num.ceil(per_thread * warp_size / unit) * unit


@formula("n_r", "blocks", _CUDA + ": the register file is split over the schedulers, so warps come in groups of that many")  # fmt: skip
def blocks_by_registers(per_sm: Number, warp_registers: Number, block_warps: Number, schedulers: Number) -> Number:
    """Blocks that fit the register file of a multiprocessor; a warp that takes none counts as taking one."""
    warps = num.floor(num.floor(per_sm / num.maximum(warp_registers, 1)) / schedulers) * schedulers
    return num.floor(warps / block_warps)


@formula("n_b", "blocks", _CUDA + ": the scarcest resource decides")
def resident_blocks(by_warps: Number, by_shared_memory: Number, by_registers: Number, max_blocks: Number) -> Number:
    """Blocks resident on a multiprocessor at once."""
    return num.minimum(num.minimum(by_warps, by_shared_memory), num.minimum(by_registers, max_blocks))


@formula("occ", "1", _CUDA)
def warp_occupancy(blocks: Number, block_warps: Number, max_warps: Number) -> Number:
    """Resident warps over the most a multiprocessor can hold."""
    return blocks * block_warps / max_warps


@formula("n_wave", "waves", "blocks of a grid run in waves of units x resident blocks")
def grid_waves(grid_blocks: Number, units: Number, blocks: Number) -> Number:
    """Waves a grid needs; the last one perhaps in part."""
    return num.ceil(grid_blocks / (units * blocks))


@formula("u_wave", "1", "wave quantization: NVIDIA Matrix Multiplication Background User's Guide, section 5.2")
def wave_utilization(grid_blocks: Number, units: Number, blocks: Number, waves: Number) -> Number:
    """Share of block slots that do work over all waves of a grid."""
    return grid_blocks / (waves * units * blocks)


@formula("u", "1", "ragged edge of a tiling: work over the work of whole tiles")
def tile_utilization(size: Number, tile: Number) -> Number:
    """Share of whole tiles along one axis that holds real elements."""
    return size / (num.ceil(size / tile) * tile)


@formula("u_out", "1", _KUNG + "; output-stationary: the m x n result lies on the array")
def output_tile_utilization(m: Number, n: Number, rows: Number, cols: Number) -> Number:
    """Share of a systolic array's cells that an output tile fills."""
    return tile_utilization(m, rows) * tile_utilization(n, cols)


@formula("u_wgt", "1", "weight-stationary: k x n weights lie on the array, the m rows of x stream past; Jouppi et al. 2017")  # fmt: skip
def weight_tile_utilization(k: Number, n: Number, rows: Number, cols: Number) -> Number:
    """Share of a systolic array's cells that hold a weight."""
    return tile_utilization(k, rows) * tile_utilization(n, cols)


@formula("u_col", "1", "rows of x stream one per clock, contraction padded for free; JAX Scaling Book workbook, chapter 1")  # fmt: skip
def column_utilization(n: Number, cols: Number) -> Number:
    """Share of a systolic array's columns in use, rows streamed counted as busy."""
    return tile_utilization(n, cols)


@formula("n_clk", "clocks", "weight-stationary: m rows stream, then the array drains over rows + cols - 2 clocks; " + _KUNG)  # fmt: skip
def systolic_cycles(m: Number, k: Number, n: Number, rows: Number, cols: Number) -> Number:
    """Clocks of a matmul on one array, weights of the next tile loaded behind the current one."""
    return num.ceil(k / rows) * num.ceil(n / cols) * m + rows + cols - 2


@formula("u_clk", "1", "multiply-adds done over the cells' clocks; " + _KUNG)
def systolic_efficiency(m: Number, k: Number, n: Number, rows: Number, cols: Number, cycles: Number) -> Number:
    """Share of an array's multiply-adds that are useful, fill and drain counted."""
    return m * k * n / (rows * cols * cycles)
