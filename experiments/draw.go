package experiments

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Lengths of a picture, in points; a browser shows 600 of them as 800 pixels.
const (
	width      = vg.Length(600)
	margin     = vg.Length(12)
	barPitch   = vg.Length(26)  // from one bar to the next
	lineHeight = vg.Length(250) // of a panel of lines
	rowGap     = vg.Length(12)
)

var (
	dark   = color.RGBA{0x33, 0x33, 0x33, 0xff}
	pale   = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	alarm  = color.RGBA{0xb0, 0x00, 0x20, 0xff}
	shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{},
		draw.TriangleGlyph{}}
)

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, XAlign: text.XLeft, YAlign: text.YTop,
		Handler: plot.DefaultTextHandler}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = xfont.WeightBold
	return s
}

// svg draws the picture for a browser. Where the font is not installed, one of the same widths takes its place.
func (p picture) svg() ([]byte, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(width, p.height()))
	p.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %s: %w", p.file, err)
	}
	return fontFamily.ReplaceAll(b.Bytes(), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

var fontFamily = regexp.MustCompile(`font-family:Liberation Sans;`)

// columns is how many panels stand side by side.
func (p picture) columns() int {
	if len(p.panels[0].lines) == 0 {
		return 1
	}
	return min(len(p.panels), 2)
}

func (p picture) rows() int { return (len(p.panels) + p.columns() - 1) / p.columns() }

func (p picture) panelHeight() vg.Length {
	if len(p.panels[0].lines) > 0 {
		return lineHeight
	}
	most := 0
	for _, panel := range p.panels {
		most = max(most, len(panel.bars))
	}
	h := barPitch*vg.Length(most) + 44
	if p.panels[0].title != "" {
		h += 18
	}
	return h
}

func (p picture) height() vg.Length {
	return p.headHeight() + p.panelHeight()*vg.Length(p.rows()) + rowGap*vg.Length(p.rows()-1) + vg.Length(len(p.footLines()))*12 + 2*margin
}

func (p picture) headHeight() vg.Length {
	h := vg.Length(len(p.titleLines())*18 + len(p.markLines())*14 + 6)
	if len(p.legend) > 0 {
		h += 20 * vg.Length(p.legendRows())
	}
	return h
}

var (
	titleStyle = bold(style(13, dark))
	markStyle  = bold(style(10, alarm))
	footStyle  = style(8.5, color.RGBA{0x70, 0x70, 0x70, 0xff})
	plainStyle = style(10, dark)
)

func (p picture) titleLines() []string { return wrap(titleStyle, p.title) }
func (p picture) markLines() []string  { return wrap(markStyle, p.marks...) }
func (p picture) footLines() []string  { return wrap(footStyle, p.foot...) }

// draw is the whole picture: title, marks, legend, panels, foot.
func (p picture) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	y := c.Max.Y
	put := func(s text.Style, step vg.Length, lines []string) {
		for _, line := range lines {
			c.FillText(s, vg.Point{X: c.Min.X, Y: y}, line)
			y -= step
		}
	}
	put(titleStyle, 18, p.titleLines())
	put(markStyle, 14, p.markLines())
	if len(p.legend) > 0 {
		p.drawLegend(c, y)
	}
	foot := p.footLines()
	y = c.Min.Y + 12*vg.Length(len(foot)) - 2
	put(footStyle, 12, foot)
	p.drawPanels(draw.Crop(c, 0, 0, 12*vg.Length(len(foot)), -p.headHeight()))
}

func (p picture) drawPanels(c draw.Canvas) {
	tiles := draw.Tiles{Rows: p.rows(), Cols: p.columns(), PadX: 18, PadY: rowGap}
	plots := make([][]*plot.Plot, tiles.Rows)
	for row := range plots {
		plots[row] = make([]*plot.Plot, tiles.Cols)
		for col := range plots[row] {
			i := row*tiles.Cols + col
			if i >= len(p.panels) {
				continue
			}
			if len(p.panels[i].lines) > 0 {
				plots[row][col] = p.linePlot(p.panels[i])
			} else {
				plots[row][col] = p.barPlot(p.panels[i])
			}
		}
	}
	for row, canvases := range plot.Align(plots, tiles, c) {
		for col, canvas := range canvases {
			if plots[row][col] != nil {
				plots[row][col].Draw(canvas)
			}
		}
	}
}

// newPlot is a panel in the style of all pictures.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	p.Title.TextStyle = bold(plainStyle)
	p.Title.TextStyle.XAlign = text.XCenter
	p.Title.Padding = 6
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		label, tick := a.Label.TextStyle, a.Tick.Label
		a.Label.TextStyle, a.Tick.Label = plainStyle, plainStyle
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign, a.Label.TextStyle.Rotation = label.XAlign, label.YAlign, label.Rotation
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = tick.XAlign, tick.YAlign
		a.LineStyle.Color, a.Tick.LineStyle.Color = dark, dark
		a.Padding = 0
		a.Tick.Length = 4
	}
	return p
}

// legend entries stand in rows of equal cells.
func (p picture) legendCell() vg.Length {
	widest := vg.Length(0)
	for _, s := range p.legend {
		widest = max(widest, plainStyle.Width(s.name))
	}
	return widest + 44
}

func (p picture) legendRows() int {
	each := max(1, int((width-2*margin)/p.legendCell()))
	return (len(p.legend) + each - 1) / each
}

func (p picture) drawLegend(c draw.Canvas, top vg.Length) {
	each := max(1, int((width-2*margin)/p.legendCell()))
	for i, s := range p.legend {
		x := c.Min.X + p.legendCell()*vg.Length(i%each)
		y := top - 20*vg.Length(i/each) - 8
		if s.index == failures {
			c.DrawGlyphNoClip(failedGlyph, vg.Point{X: x + 12, Y: y})
		} else {
			c.StrokeLine2(draw.LineStyle{Color: s.color, Width: 2}, x, y, x+24, y)
			if !s.bare {
				c.DrawGlyphNoClip(s.glyph(), vg.Point{X: x + 12, Y: y})
			}
		}
		c.FillText(plainStyle, vg.Point{X: x + 30, Y: y + 5}, s.name)
	}
}

// failures is the index of the legend's entry for points some of whose requests failed.
const failures = -1

var failedGlyph = draw.GlyphStyle{Color: alarm, Radius: 6, Shape: draw.CrossGlyph{}}

func (s series) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: s.color, Radius: 3.5, Shape: shapes[s.index%len(shapes)]}
}

// lineWidth leaves room for a browser that has neither the font nor one of its widths.
const lineWidth = (width - 2*margin) * 0.86

// wrap breaks lines that are wider than the picture.
func wrap(s text.Style, lines ...string) []string {
	var out []string
	for _, line := range lines {
		current := ""
		for _, word := range strings.Fields(line) {
			if current != "" && s.Width(current+" "+word) > lineWidth {
				out = append(out, current)
				current = word
				continue
			}
			if current != "" {
				current += " "
			}
			current += word
		}
		out = append(out, current)
	}
	return out
}

// ticks of an axis that begins at 0.
func linearTicks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*f) <= 8 {
			step *= f
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high*(1+1e-9); i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: tickText(i * step)})
	}
	return ticks
}

// logTicks are 1, 2 and 5 in each decade, with labels at all of them while there are few decades.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	decades := math.Log10(high / low)
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, f := range []float64{1, 2, 5} {
			v := f * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if f == 1 || decades < 2.5 {
				t.Label = tickText(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
