package experiments

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// tickText is a tick's value without digits that say nothing.
func tickText(v float64) string {
	return grouped(strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64))
}

// barPlot has a horizontal bar for each contender, its name on the left, its figure at the end.
func (p picture) barPlot(panel panel) *plot.Plot {
	b := newPlot(panel.title)
	top := 0.0
	for _, v := range p.y.values {
		top = max(top, v)
	}
	b.X.Label.Text = p.y.label
	b.X.Min, b.X.Max = 0, top*1.02
	ticks := linearTicks(0, top)
	b.X.Tick.Marker = plot.ConstantTicks(ticks)
	b.X.Max = top * 1.4 // figures stand there
	if slices.ContainsFunc(panel.bars, func(s series) bool { return s.points[0].failed > 0 }) {
		b.X.Max = top * 1.6
	}
	b.Y.Min, b.Y.Max = -0.6, float64(len(panel.bars))-0.4
	b.Y.LineStyle.Width = 0
	b.Y.Tick.Length = 0
	var names plot.ConstantTicks
	for i, s := range panel.bars {
		names = append(names, plot.Tick{Value: float64(len(panel.bars) - 1 - i), Label: s.name})
	}
	b.Y.Tick.Marker = names
	b.Add(rules{vertical: ticks})
	for i, s := range panel.bars {
		b.Add(bar{series: s, base: p.base, y: float64(len(panel.bars) - 1 - i)})
	}
	return b
}

// bar is a bar with its interval and its figure.
type bar struct {
	series
	base string
	y    float64
}

// Plot draws the bar.
func (b bar) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	pt := b.points[0]
	y, half := toY(b.y), barPitch*0.36
	zero, end := toX(0), toX(pt.e.Median)
	c.FillPolygon(b.color, []vg.Point{{X: zero, Y: y - half}, {X: end, Y: y - half}, {X: end, Y: y + half}, {X: zero, Y: y + half}})
	last := end
	if pt.e.Rounds > 1 {
		low, high := toX(pt.e.Low), toX(pt.e.High)
		s := draw.LineStyle{Color: dark, Width: 1.2}
		c.StrokeLine2(s, low, y, high, y)
		c.StrokeLine2(s, low, y-4, low, y+4)
		c.StrokeLine2(s, high, y-4, high, y+4)
		last = max(last, high)
	}
	label, s := figure(pt.e.Median), plainStyle
	s.YAlign = text.YCenter
	if !math.IsNaN(pt.ratio) {
		label += fmt.Sprintf("  (%s × %s)", strconv.FormatFloat(pt.ratio, 'f', 2, 64), b.base)
	}
	at := vg.Point{X: last + 6, Y: y}
	c.FillText(s, at, label)
	if pt.failed > 0 {
		at.X += s.Width(label + "  ")
		s.Color = alarm
		c.FillText(s, at, grouped(fmt.Sprint(pt.failed))+" failed")
	}
}

// linePlot has a line for each contender.
func (p picture) linePlot(panel panel) *plot.Plot {
	l := newPlot(panel.title)
	l.X.Label.Text, l.Y.Label.Text = p.x.label, p.y.label
	low, high := p.y.values[0], p.y.values[len(p.y.values)-1]
	var ticks []plot.Tick
	if p.y.log {
		l.Y.Scale = plot.LogScale{}
		l.Y.Min, l.Y.Max = low/1.15, high*1.15
		ticks = logTicks(l.Y.Min, l.Y.Max)
	} else {
		l.Y.Min, l.Y.Max = min(0, low), high*1.06
		if high <= 0 {
			l.Y.Max = 1
		}
		ticks = linearTicks(l.Y.Min, l.Y.Max)
	}
	l.Y.Tick.Marker = plot.ConstantTicks(ticks)
	first, last := p.x.values[0], p.x.values[len(p.x.values)-1]
	if p.x.log {
		l.X.Scale = plot.LogScale{}
		f := math.Pow(last/first, 0.05)
		l.X.Min, l.X.Max = first/f, last*f
	} else {
		pad := (last - first) * 0.05
		if pad == 0 {
			pad = 1
		}
		l.X.Min, l.X.Max = first-pad, last+pad
	}
	l.X.Tick.Marker = plot.ConstantTicks(p.xTicks(l))
	l.Add(rules{horizontal: ticks})
	for _, s := range panel.lines {
		l.Add(line{s})
	}
	return l
}

// xTicks are the values that were measured; a label that would touch the one before is left out.
func (p picture) xTicks(l *plot.Plot) []plot.Tick {
	var ticks []plot.Tick
	length := float64(width) / float64(p.columns()) * 0.8 // of the axis, in points
	end := math.Inf(-1)
	for _, v := range p.x.values {
		t := plot.Tick{Value: v}
		at := l.X.Norm(v) * length
		label := short(v)
		half := float64(plainStyle.Width(label))/2 + 3
		if at-half > end {
			t.Label = label
			end = at + half
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// short writes thousands and millions as k and M.
func short(v float64) string {
	switch {
	case v >= 1e6 && math.Mod(v, 1e5) == 0:
		return tickText(v/1e6) + " M"
	case v >= 1e4 && math.Mod(v, 100) == 0:
		return tickText(v/1e3) + " k"
	}
	return tickText(v)
}

// line is a contender's line with its points and their intervals.
type line struct{ series }

// Plot draws the line.
func (l line) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	var path []vg.Point
	for _, pt := range l.points {
		path = append(path, vg.Point{X: toX(pt.x), Y: toY(pt.e.Median)})
	}
	if l.bare {
		c.StrokeLines(draw.LineStyle{Color: l.color, Width: 0.9}, path)
		return
	}
	c.StrokeLines(draw.LineStyle{Color: l.color, Width: 1.8}, path)
	for i, pt := range l.points {
		x := path[i].X
		if pt.e.Rounds > 1 {
			low, high := toY(pt.e.Low), toY(pt.e.High)
			s := draw.LineStyle{Color: l.color, Width: 1}
			c.StrokeLine2(s, x, low, x, high)
			c.StrokeLine2(s, x-3, low, x+3, low)
			c.StrokeLine2(s, x-3, high, x+3, high)
		}
		c.DrawGlyphNoClip(l.glyph(), path[i])
		if pt.failed > 0 {
			c.DrawGlyphNoClip(failedGlyph, path[i])
		}
	}
}

// rules are behind bars and lines.
type rules struct{ vertical, horizontal []plot.Tick }

// Plot draws the rules.
func (g rules) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	s := draw.LineStyle{Color: pale, Width: 0.6}
	for _, t := range g.vertical {
		c.StrokeLine2(s, toX(t.Value), c.Min.Y, toX(t.Value), c.Max.Y)
	}
	for _, t := range g.horizontal {
		c.StrokeLine2(s, c.Min.X, toY(t.Value), c.Max.X, toY(t.Value))
	}
}
