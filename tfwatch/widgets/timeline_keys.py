"""The keys of a timeline, as data."""

from textual.binding import Binding

LOOK = Binding.Group("look")

KEYS = (
    Binding(
        "space", "freeze", "freeze", id="timeline.freeze", tooltip="freeze the charts, or follow the run", group=LOOK
    ),
    Binding("left", "look(-1)", "look back", id="timeline.back", tooltip="look back, a column at a time", group=LOOK),
    Binding("right", "look(1)", "look on", id="timeline.on", tooltip="look on, a column at a time", group=LOOK),
    Binding(
        "shift+left", "look(-20)", "look back 20", id="timeline.far_back", tooltip="look back 20 columns", group=LOOK
    ),
    Binding("shift+right", "look(20)", "look on 20", id="timeline.far_on", tooltip="look on 20 columns", group=LOOK),
    Binding("home", "home", "beginning", id="timeline.home", tooltip="look at the run's beginning", group=LOOK),
    Binding("end", "live", "live", id="timeline.live", tooltip="follow the run", group=LOOK),
    Binding("z", "zoom(1)", "zoom out", id="timeline.out", tooltip="show more of the run at once", group=LOOK),
    Binding(
        "Z", "zoom(-1)", "zoom in", id="timeline.in", tooltip="show less of the run, down to single steps", group=LOOK
    ),
)
