"""The look of a timeline: its roles, each a component class, and their colours."""

from tfwatch.widgets.glyphs import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    OTHERS_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)

PREFIX = "timeline--"
ROLES = (
    *("wait", "stall", "host", "compute", "muted", "cpu", "gpu", "others", "quiet", "number", "message"),
    *("switch", "alarm", "rule", "cursor", "onwall", "good", "middling", "bad"),
)

CSS = f"""
Timeline {{
    height: 15;
    border: round $foreground 30%;
    border-title-color: $foreground 80%;
    border-title-style: bold;
    border-subtitle-color: {QUIET_COLOUR};
    &:focus {{ border: round $accent; }}
    &.-plain {{ border: ascii $foreground 30%; }}
    &.-plain:focus {{ border: ascii $accent; }}
    & > .timeline--wait {{ color: {WAIT_COLOUR}; }}
    & > .timeline--stall {{ color: {STALL_COLOUR}; }}
    & > .timeline--host {{ color: {HOST_COLOUR}; }}
    & > .timeline--compute {{ color: {COMPUTE_COLOUR}; }}
    & > .timeline--muted {{ color: {MUTED_COLOUR}; }}
    & > .timeline--cpu {{ color: $success; }}
    & > .timeline--gpu {{ color: {COMPUTE_COLOUR}; }}
    & > .timeline--others {{ color: {OTHERS_COLOUR}; }}
    & > .timeline--quiet {{ color: {QUIET_COLOUR}; }}
    & > .timeline--number {{ color: $foreground; }}
    & > .timeline--message {{ color: $foreground; text-style: bold; }}
    & > .timeline--switch {{ color: $text-accent; text-style: bold; }}
    & > .timeline--alarm {{ color: $text-error; text-style: bold; }}
    & > .timeline--rule {{ color: $text-accent; }}
    & > .timeline--cursor {{ color: $foreground; }}
    & > .timeline--onwall {{ color: auto 95%; background: {STALL_COLOUR}; text-style: bold; }}
    & > .timeline--good {{ color: $text-success; text-style: bold; }}
    & > .timeline--middling {{ color: $text-warning; text-style: bold; }}
    & > .timeline--bad {{ color: $text-error; text-style: bold; }}
    &.-mono > .timeline--wait, &.-mono > .timeline--stall, &.-mono > .timeline--host, &.-mono > .timeline--compute,
    &.-mono > .timeline--muted, &.-mono > .timeline--cpu, &.-mono > .timeline--gpu, &.-mono > .timeline--others,
    &.-mono > .timeline--switch, &.-mono > .timeline--alarm,
    &.-mono > .timeline--rule, &.-mono > .timeline--good, &.-mono > .timeline--middling, &.-mono > .timeline--bad
    {{ color: $foreground; }}
    &.-mono > .timeline--onwall {{ color: $background; background: $foreground; }}
}}
"""
