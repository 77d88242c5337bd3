"""What a refusal of the driver's means for a user, and whether the device can be used after it."""

from __future__ import annotations

from types import MappingProxyType

from .libcuda import Refused

# CUresult -> a remedy. Those of _LOST leave the context unusable until the process ends.
_REMEDIES = MappingProxyType({
    2: "is out of memory ({e}); use smaller inputs or free other programs",
    3: "is not open in this process ({e}); open it after a fork, not before",
    46: "is in use by another process alone ({e}); end that, or change the GPU's compute mode",
    200: "does not take the machine code that it was given ({e}); report it, with the program, its "
         "driver and the version of NVRTC or nvcc",
    209: "has no kernels for its architecture in what was loaded ({e}); compile for this GPU, with "
         "tegg.Cuda() or device='cuda'",
    222: "was given code by a newer compiler than its driver knows ({e}); install a newer driver, "
         "or an older nvidia-cuda-nvrtc",
    701: "has too few registers or too little shared memory for a kernel ({e}); compile for this "
         "GPU, with tegg.Cuda() or device='cuda'",
    702: "stopped a kernel that ran for too long ({e}); a GPU that also shows a screen has a limit",
    719: "a kernel failed ({e}); run the same inputs on device='cpu', and report what differs",
})
_FAULTS = (700, 714, 715, 716, 717, 718)  # as 719: addresses, instructions, alignment
_LOST = (46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999)


def explained(device: str, refusal: Refused) -> tuple[str, bool]:
    """The message for a refusal, and whether the device is lost to this process."""
    code = 719 if refusal.code in _FAULTS else refusal.code
    lost = refusal.code in _LOST
    if code in _REMEDIES:
        what = _REMEDIES[code].format(e=refusal)
    elif lost:
        what = f"was lost ({refusal}); see nvidia-smi, and start the program again"
    else:
        what = f"refuses a call ({refusal}); report it, with the program that was run"
    return f"{device} {what}" if not what.startswith("a kernel") else f"{device}: {what}", lost
