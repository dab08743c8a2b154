package experiments

import (
	"image/color"
	"slices"
)

// Colours that can be distinguished with colour vision deficiencies (Okabe and Ito, "Color Universal Design"), without yellow, which is too
// light for a line on white.
var (
	grey       = color.RGBA{0x8a, 0x8a, 0x8a, 0xff}
	blue       = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange     = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	green      = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	vermillion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	purple     = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	sky        = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	black      = color.RGBA{0x00, 0x00, 0x00, 0xff}
)

// known contenders have the same colour in all experiments; others get the remaining ones in order.
var known = map[string]color.Color{"direct": grey, "baton": blue, "haproxy": orange, "nginx": green, "redirect": purple}

var others = []color.Color{vermillion, sky, black, purple, green, orange, blue, grey}

func palette(contenders []ContenderInfo) []color.Color {
	colors := make([]color.Color, len(contenders))
	var used []color.Color
	for i, c := range contenders {
		if colors[i] = known[c.Name]; colors[i] != nil {
			used = append(used, colors[i])
		}
	}
	for i := range colors {
		if colors[i] != nil {
			continue
		}
		free := slices.IndexFunc(others, func(c color.Color) bool { return !slices.Contains(used, c) })
		if free < 0 {
			free, used = 0, nil // start over: the glyphs still distinguish them
		}
		colors[i] = others[free]
		used = append(used, colors[i])
	}
	return colors
}
