"""Line plots as SVG text that takes its colours from the page's style sheet.

Colours are CSS variables (--line-0, --line-1 ... for series; --ink, --muted, --grid), so that one
page serves light and dark.
"""

import dataclasses
import html
import math

_WIDTH, _HEIGHT = 620, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 18, 16, 52


@dataclasses.dataclass
class Series:
    """A line: points are (x, y) in the plot's units, `slot` chooses its colour, `css` are
    its classes in the style sheet."""

    name: str
    slot: int
    points: list
    css: str = "series"


@dataclasses.dataclass
class Axis:
    """From `low` to `high`; on a logarithmic axis both are above zero."""

    label: str
    low: float
    high: float
    logarithmic: bool = False

    def position(self, value):
        """0 at `low`, 1 at `high`; values outside lie outside."""
        if self.logarithmic:
            value = max(value, self.low / 1e3)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self):
        """Round values from `low` to `high`."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            values = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        else:
            step = _round_step((self.high - self.low) / 6)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            values = [i * step for i in range(first, last + 1)]
        return [v for v in values if self.low * 0.999999 <= v <= self.high * 1.000001]


def _round_step(rough):
    """The next of 1, 2, 5, 10 ... (times a power of ten) that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999999)


def _text(x, y, text, css, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}"{extra}>{html.escape(text)}</text>'


class Plot:
    """Series over two axes with a horizontal target line; `unit` is that of y."""

    def __init__(self, x_axis, y_axis, target, unit=" %"):
        self._x_axis, self._y_axis = x_axis, y_axis
        self._target, self._unit = target, unit

    def _x(self, value):
        return _LEFT + self._x_axis.position(value) * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value):
        return _HEIGHT - _BOTTOM - self._y_axis.position(value) * (_HEIGHT - _TOP - _BOTTOM)

    def svg(self, series, title):
        """The whole <svg> element; `title` is its text for those who cannot see it."""
        clip = "clip-" + "".join(c if c.isalnum() else "-" for c in title)
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        parts = [
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html.escape(title)}">',
            f'<clipPath id="{clip}"><rect x="{_LEFT}" y="{_TOP - 6}" width="{right - _LEFT + 6}" '
            f'height="{bottom - _TOP + 6}"/></clipPath>',
            *self._grid(),
            f'<g clip-path="url(#{clip})">',
            *(self._line(one) for one in series),
            "</g>",
            *self._target_line(),
            "</svg>",
        ]
        return "\n".join(parts)

    def _grid(self):
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        for value in self._y_axis.ticks():
            y = self._y(value)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'
            yield _text(_LEFT - 8, y + 4, f"{value:g}", "tick", ' text-anchor="end"')
        for value in self._x_axis.ticks():
            x = self._x(value)
            yield f'<path class="axis" d="M{x:.1f} {bottom}v5"/>'
            yield _text(x, bottom + 19, f"{value:g}", "tick", ' text-anchor="middle"')
        yield f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>'
        middle = (_LEFT + right) / 2
        yield _text(middle, _HEIGHT - 10, self._x_axis.label, "label", ' text-anchor="middle"')
        turn = f' text-anchor="middle" transform="rotate(-90 14 {(_TOP + bottom) / 2})"'
        yield _text(14, (_TOP + bottom) / 2, self._y_axis.label, "label", turn)

    def _target_line(self):
        y = self._y(self._target)
        right = _WIDTH - _RIGHT
        yield f'<path class="target" d="M{_LEFT} {y:.1f}H{right}"/>'
        # Lines that rise to the right leave room on the left of a logarithmic plot, and on the
        # right of a linear one.
        x, anchor = (_LEFT + 4, "start") if self._x_axis.logarithmic else (right, "end")
        text = f"target {self._target:g}{self._unit}"
        yield _text(x, y - 6, text, "note", f' text-anchor="{anchor}"')

    def _line(self, series):
        at = [(self._x(x), self._y(y)) for x, y in series.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        style = f'style="--c:var(--line-{series.slot})"'
        dots = [
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5"><title>{html.escape(series.name)}: '
            f"{y:.2f}{self._unit} at {x:.4g}</title></circle>"
            for (px, py), (x, y) in zip(at, series.points)
        ]
        return f'<g class="{series.css}" {style}><path d="{path}"/>{"".join(dots)}</g>'
