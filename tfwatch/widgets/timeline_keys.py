"""The keys of a timeline, as data: the screen around it offers the same ones, wherever the focus is."""

from textual.binding import Binding

LOOK = Binding.Group("look")


def _key(keys: str, action: str, shown: str, does: str, id: str) -> Binding:
    return Binding(keys, action, does, key_display=shown, tooltip=does, group=LOOK, id=f"timeline.{id}", show=False)


KEYS = (
    _key("space", "freeze", "space", "freeze the charts, or follow again", "freeze"),
    _key("left", "look(-1)", "left", "look back by a column", "back"),
    _key("right", "look(1)", "right", "look forward by a column", "forward"),
    _key("shift+left", "look(-20)", "shift+left", "look back by 20 columns", "far_back"),
    _key("shift+right", "look(20)", "shift+right", "look forward by 20 columns", "far_forward"),
    _key("home", "home", "home", "look at the run's beginning", "home"),
    _key("end", "live", "end", "follow the run again", "live"),
    _key("z", "zoom(1)", "z", "more time in a column", "out"),
    _key("Z,upper_z", "zoom(-1)", "Z", "less time in a column, down to single steps", "in"),
)
