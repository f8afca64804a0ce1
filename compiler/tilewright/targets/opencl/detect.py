"""An OpenCL device as a Machine."""

from __future__ import annotations

from tilewright.machine import Machine
from tilewright.targets.opencl.platforms import choose_device

_FLOAT_BITS = 32
_CORRECTLY_ROUNDED = 1 << 7  # CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT


def detect(name: str = "", threads: int | None = None) -> Machine:
    """The device that `opencl:NAME` means; see `choose_device` for the rule. Raises UsageError.

    features: extensions, and `fp64`, `fp16`, `rounded_divide` where the device has them;
    limits: work_group (items), local_bytes, max_alloc, global_bytes and parameter_bytes.
    """
    found = choose_device(name, threads)
    device = found.handle
    features = set(device.extensions.split())
    features |= {short for short in ("fp64", "fp16") if f"cl_khr_{short}" in features}
    if device.single_fp_config & _CORRECTLY_ROUNDED:
        features.add("rounded_divide")
    return Machine(
        name=found.label,
        triple="opencl-cpu" if found.is_cpu else "opencl-gpu",
        features=tuple(sorted(features)),
        vector_bits=max(int(device.native_vector_width_float), 1) * _FLOAT_BITS,
        units={"compute": int(device.max_compute_units)},
        limits={
            "work_group": int(device.max_work_group_size),
            "local_bytes": int(device.local_mem_size),
            "max_alloc": int(device.max_mem_alloc_size),
            "global_bytes": int(device.global_mem_size),
            "parameter_bytes": int(device.max_parameter_size),
        },
    )
