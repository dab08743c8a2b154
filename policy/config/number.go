package config

import (
	"fmt"
	"math"
	"strconv"
)

// degrees decodes a latitude or a longitude.
func (p *decoder) degrees(path string, n *node, most float64) float64 {
	s := p.Text(path, n)
	v, err := strconv.ParseFloat(s, 64)
	if p.Err() == nil && (err != nil || math.IsNaN(v) || math.Abs(v) > most) {
		p.WrongText(n, path, s, "is out of range", fmt.Sprintf("degrees from %g to %g", -most, most))
	}
	return v
}
