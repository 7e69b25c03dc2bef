"""Asks NVML about the GPUs, through NVIDIA's own binding (nvidia-ml-py).

A value that a GPU does not have (utilisation under MIG, power on a vGPU) is unknown. A GPU that
falls off the bus is told once and left out from then on; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ai4infra.diagnosis.samples import GpuSample, Notes

T = TypeVar("T")

DRIVER = "driver"
"""Under this name a failing driver is told in ``Notes.lost_gpus``."""
_PERCENT = 100
_MILLIWATTS = 1000
_BROKEN = {
    "NVMLError_LibraryNotFound": (
        "The NVIDIA driver is not installed here (no libnvidia-ml.so.1): GPUs are not sampled."
    ),
    "NVMLError_DriverNotLoaded": (
        "The NVIDIA driver is installed but not loaded: GPUs are not sampled."
    ),
    "NVMLError_LibRmVersionMismatch": (
        "The NVIDIA driver was updated and its kernel module was not: restart the VM."
    ),
    "NVMLError_NoPermission": "This user may not ask the NVIDIA driver: GPUs are not sampled.",
}


class Gpus:
    """The NVIDIA GPUs of this machine, as long as it is open."""

    def __init__(self, notes: Notes) -> None:
        """Open NVML. Where that fails the notes say why, and there are no GPUs."""
        import pynvml  # type: ignore[import-untyped]  # NVIDIA ships no types

        self._nvml: Any = pynvml
        self._notes = notes
        self._handles: dict[int, Any] = {}
        self._limits: dict[int, float | None] = {}
        self._mig: dict[int, bool | None] = {}
        self.model: str | None = None
        self.count: int | None = None
        self._open = False
        try:
            pynvml.nvmlInit()
            self._open = True
            self.count = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            self._driver_lost(error)
        if self.count == 0:
            notes.lost(DRIVER, "The NVIDIA driver shows no GPU here: GPUs are not sampled.")
        for index in range(self.count or 0):
            self._enter(index)

    def sample(self, time_s: float) -> Iterator[GpuSample]:
        """Yield a reading of every GPU that still answers."""
        for index in list(self._handles):
            reading = self._reading(index, time_s)
            if reading is not None:
                yield reading

    def processes(self) -> dict[int, str]:
        """Return the processes that compute on a GPU, with its index; of several the first."""
        found: dict[int, str] = {}
        for index in list(self._handles):
            running = self._ask(index, self._running)
            for process in running or ():
                found.setdefault(int(process.pid), str(index))
        return found

    def _running(self, handle: Any) -> Any:
        try:
            # By its version: the plain name raises what is no NVMLError.
            return self._nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        except self._nvml.NVMLError_FunctionNotFound:
            # Drivers before 510 have the question's second version only, and not all bindings do.
            older = getattr(self._nvml, "nvmlDeviceGetComputeRunningProcesses_v2", None)
            if older is None:
                raise
            return older(handle)

    def close(self) -> None:
        """Let go of NVML."""
        if self._open:
            self._open = False
            self._nvml.nvmlShutdown()

    def _enter(self, index: int) -> None:
        try:
            self._handles[index] = self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError as error:
            self._notes.lost(str(index), f"GPU {index} does not answer: {error}.")
            return
        name = self._ask(index, self._nvml.nvmlDeviceGetName)
        self.model = self.model or (None if name is None else str(name))
        limit = self._ask(index, self._nvml.nvmlDeviceGetEnforcedPowerLimit)
        self._limits[index] = None if limit is None else limit / _MILLIWATTS
        mig = self._ask(index, self._nvml.nvmlDeviceGetMigMode)
        self._mig[index] = None if mig is None else bool(mig[0])

    def _reading(self, index: int, time_s: float) -> GpuSample | None:
        nvml = self._nvml
        used = self._ask(index, nvml.nvmlDeviceGetUtilizationRates)
        memory = self._ask(index, nvml.nvmlDeviceGetMemoryInfo)
        power = self._ask(index, nvml.nvmlDeviceGetPowerUsage)
        clock = self._ask(index, lambda h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM))
        if index not in self._handles:
            return None
        return GpuSample(
            time_s=time_s,
            gpu=str(index),
            utilization=None if used is None else used.gpu / _PERCENT,
            memory_activity=None if used is None else used.memory / _PERCENT,
            memory_used_bytes=None if memory is None else float(memory.used),
            power_w=None if power is None else power / _MILLIWATTS,
            power_limit_w=self._limits.get(index),
            sm_clock_mhz=None if clock is None else float(clock),
            mig=self._mig.get(index),
        )

    def _ask(self, index: int, question: Callable[[Any], T]) -> T | None:
        """Ask one thing of one GPU; None when it has no answer, or is no longer there."""
        if index not in self._handles:
            return None
        nvml = self._nvml
        try:
            return question(self._handles[index])
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired) as error:
            del self._handles[index]
            self._notes.lost(str(index), f"GPU {index} is lost: {error}.")
        except nvml.NVMLError:
            return None
        return None

    def _driver_lost(self, error: Exception) -> None:
        said = _BROKEN.get(type(error).__name__, f"NVML does not answer: {error}.")
        self._notes.lost(DRIVER, said)
