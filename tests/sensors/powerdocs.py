"""Documents in the form of powermetrics, for tests."""

from __future__ import annotations

from tfwatch.sensors.sensor import GpuReading

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
"""
#: Of 1.5 s: 2 W of GPU, 3 W of CPU, 0.5 W of ANE. The energy in the GPU part covers another window.
PROCESSOR = (
    "<key>cpu_energy</key><integer>4500</integer><key>gpu_energy</key><integer>3000</integer>"
    "<key>ane_energy</key><integer>750</integer>"
)
#: The part of a cluster that precedes the figures.
CLUSTER = """<dict><key>name</key><string>%s</string><key>hw_resid_counters</key><true/>
<key>freq_hz</key><real>2.1e+09</real><key>idle_ns</key><integer>7</integer><key>idle_ratio</key><real>0.25</real>
<key>dvfm_states</key><array><dict><key>freq</key><integer>972</integer><key>used_ns</key><integer>5</integer></dict>
</array><key>cpus</key><array><dict><key>cpu</key><integer>0</integer><key>freq_hz</key><real>1e+09</real></dict></array>
</dict>"""


def gpu(
    freq: str = "<real>712.5</real>",
    idle: str = "<real>0.4</real>",
    again: str = "<key>idle_ns</key><integer>400</integer>",
    energy: str = "<key>gpu_energy</key><integer>3600</integer>",
) -> str:
    return (
        f"<key>gpu</key>\n<dict>\n<key>freq_hz</key>{freq}\n<key>idle_ns</key><integer>400</integer>\n"
        f"<key>idle_ratio</key>{idle}\n"
        f"<key>sw_state</key><array><dict><key>sw_state</key><string>SW_P1</string></dict></array>\n{again}\n{energy}</dict>\n"
    )


def document(
    gpu_part: str | None = None,
    processor: str = PROCESSOR,
    elapsed: str = "<key>elapsed_ns</key><integer>1500000000</integer>",
    thermal: str = "<key>thermal_pressure</key><string>Nominal</string>",
    clusters: str = CLUSTER % "E-Cluster" + CLUSTER % "P0-Cluster",
) -> bytes:
    """Return a document in the form of powermetrics: 1.5 s, 2 W of GPU, 3 W of CPU, 0.5 W of
    ANE."""
    part = (
        f"<key>processor</key><dict><key>clusters</key><array>{clusters}</array>{processor}</dict>"
        if processor
        else ""
    )
    body = (
        f"<dict>\n<key>is_delta</key><true/>\n{elapsed}\n<key>timestamp</key><date>2025-07-06T04:15:28Z</date>\n"
        f"{part}\n{thermal}\n{gpu() if gpu_part is None else gpu_part}</dict>\n</plist>"
    )
    return (HEAD + body).encode()


PLAIN = GpuReading(
    {
        "gpu_busy": 0.6,
        "gpu_freq_mhz": 712.5,
        "gpu_power_w": 2.0,
        "cpu_power_w": 3.0,
        "thermal_level": 0,
    }
)
