"""The profile of a GPU as TensorFlow writes it, made by hand: planes, streams, kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfwatch.core.events import StepProfiled

#: A path of an operation in the step, as the statistic `tf_op` has it.
CONV = "StatefulPartitionedCall/net_1/body_1/convolution/Conv2D:Conv2D"
DENSE = "StatefulPartitionedCall/net_1/head_1/MatMul:MatMul"
_CALL = "EagerLocalExecute: __inference_one_step_on_iterator_128"
#: All lines of a profile begin here, nanoseconds.
_BEGIN_NS = 1_000_000


class GpuProfile:
    """Planes of a host and a GPU; times in microseconds since the profile began."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        """capability: of the GPU; (9, 0) is an H100's."""
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        self.space = xplane_pb2.XSpace()
        self._host = self.space.planes.add(name="/host:CPU")
        self._python = self._host.lines.add(name="python", timestamp_ns=_BEGIN_NS)
        self._threads = self._host.lines.add(name="tf_Compute", timestamp_ns=_BEGIN_NS)
        self._gpu = self.space.planes.add(name="/device:GPU:0")
        self._streams: dict[str, Any] = {}
        for name, value in zip(("major", "minor"), capability, strict=True):
            stat = self._number(self._gpu.stat_metadata, f"compute_cap_{name}")
            self._gpu.stats.add(metadata_id=stat, uint64_value=value)

    def call(self, begin_us: float, took_us: float, name: str = _CALL) -> GpuProfile:
        """Add a call of the step by the training thread."""
        self._add(self._host, self._python, name, begin_us, took_us)
        return self

    def on_host(self, path: str, begin_us: float, took_us: float) -> GpuProfile:
        """Add an operation that a thread of TensorFlow's runs."""
        self._add(self._host, self._threads, path, begin_us, took_us)
        return self

    def kernel(
        self, name: str, begin_us: float, took_us: float, path: str = "", stream: str = "Stream #13"
    ) -> GpuProfile:
        """Add a kernel or a copy."""
        if stream not in self._streams:
            self._streams[stream] = self._gpu.lines.add(name=stream, timestamp_ns=_BEGIN_NS)
        event = self._add(self._gpu, self._streams[stream], name, begin_us, took_us)
        if path:
            event.stats.add(
                metadata_id=self._number(self._gpu.stat_metadata, "tf_op"), str_value=path
            )
        return self

    def compiled_kernel(self, name: str, begin_us: float, took_us: float) -> GpuProfile:
        """Add a kernel that XLA compiled."""
        self.kernel(name, begin_us, took_us)
        event = self._streams["Stream #13"].events[-1]
        number = self._number(self._gpu.stat_metadata, "hlo_op")
        event.stats.add(metadata_id=number, str_value=name)
        return self

    def write(self, folder: Path) -> None:
        """Write it as TensorFlow does."""
        (folder / "host.xplane.pb").write_bytes(self.space.SerializeToString())

    def read(self, folder: Path, steps: int = 1) -> StepProfiled:
        """Return its profile of so many steps, without a model."""
        from tfwatch.watch.profile import recorded
        from tfwatch.watch.profile.operations import Recording, profile_of

        self.write(folder)
        recording = Recording(9, steps, 5.0, 8.0, "key", None, None)
        return profile_of(recording, recorded.read(folder), 1, accelerated=True)

    def _add(self, plane: Any, line: Any, name: str, begin_us: float, took_us: float) -> Any:
        key = self._number(plane.event_metadata, name)
        return line.events.add(
            metadata_id=key, offset_ps=int(begin_us * 1e6), duration_ps=int(took_us * 1e6)
        )

    def _number(self, table: Any, name: str) -> int:
        """Return the number of a name in a plane's table, and add it where it is missing."""
        for key, one in table.items():
            if one.name == name:
                return int(key)
        key = len(table) + 1
        table[key].id, table[key].name = key, name
        return key
