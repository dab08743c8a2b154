package experiments

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// figure writes three digits that mean something, more of a large whole number, with thousands apart.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 1000:
		return grouped(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1 || a == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// grouped sets the thousands of a number's whole part apart.
func grouped(number string) string {
	whole, fraction, point := strings.Cut(number, ".")
	sign := strings.HasPrefix(whole, "-")
	whole = strings.TrimPrefix(whole, "-")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if sign {
		whole = "-" + whole
	}
	if point {
		whole += "." + fraction
	}
	return whole
}

// with appends a unit, if there is a number.
func with(number, unit string) string {
	if unit == "" || number == "-" {
		return number
	}
	return number + " " + unit
}

// seconds writes a time in the unit that suits it.
func seconds(s float64) string {
	switch a := math.Abs(s); {
	case math.IsNaN(s):
		return "-"
	case a == 0:
		return "0"
	case a < 1e-6:
		return figure(s*1e9) + " ns"
	case a < 1e-3:
		return figure(s*1e6) + " µs"
	case a < 1:
		return figure(s*1e3) + " ms"
	}
	return figure(s) + " s"
}

// spread writes an interval; nothing for a single round.
func spread(e Estimate, text func(float64) string) string {
	if e.Rounds < 2 {
		return "-"
	}
	return fmt.Sprintf("%s to %s", text(e.Low), text(e.High))
}

// percent keeps the digits of a coverage (93.75 %).
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*10000)/100, 'f', -1, 64) + " %"
}
