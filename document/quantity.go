package document

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// unit is the unit of a number.
type unit struct {
	name string
	is   float64 // how many of the base unit
}

// The units of sizes, in bytes: powers of 1024 have an i, powers of 1000 have none. The largest comes first.
var sizeUnits = []unit{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}, {"KB", 1e3},
}

// The units of rates, in bits per second, as in tc(8). The largest comes first.
var rateUnits = []unit{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}

// Size decodes a number of bytes with its unit, from least to most. It drops fractions of a byte.
func (d *Decoder) Size(path string, n *Node, least, most uint64) uint64 {
	if d.told(n, unitSchema(sizeUnits, false)) {
		return 0
	}
	s := d.Text(path, n)
	v, ok := d.quantity(path, n, s, sizeUnits, float64(least), float64(most))
	if !ok {
		d.WrongText(n, path, s, "is not a size", "a number with its unit, such as 20GB or 500MiB")
	}
	return uint64(v)
}

// Rate decodes bits per second with their unit, in upper or lower case, from least to most.
func (d *Decoder) Rate(path string, n *Node, least, most float64) float64 {
	if d.told(n, unitSchema(rateUnits, true)) {
		return 0
	}
	s := d.Text(path, n)
	v, ok := d.quantity(path, n, strings.ToLower(s), rateUnits, least, most)
	if !ok {
		d.WrongText(n, path, s, "is not a rate", "a number with its unit, such as 500mbit or 1gbit")
	}
	return v
}

// Percent decodes a share in percent, with the sign, from least to most percent. It returns 0.1 for 10%.
func (d *Decoder) Percent(path string, n *Node, least, most float64) float64 {
	if d.told(n, percentSchema) {
		return 0
	}
	s := d.Text(path, n)
	if d.err != nil {
		return 0
	}
	count, is := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	switch {
	case err != nil:
		d.WrongText(n, path, s, "is not a share", fmt.Sprintf("from %g%% to %g%%", least, most))
	case !is:
		d.WrongText(n, path, s, "has no percent sign", fmt.Sprintf("from %g%% to %g%%", least, most))
	case !(v >= least && v <= most): // which a NaN is not
		d.WrongText(n, path, s, "is out of range", fmt.Sprintf("from %g%% to %g%%", least, most))
	default:
		return v / 100
	}
	return 0
}

// quantity returns a number in the base unit; false if it is not a number with one of the units.
func (d *Decoder) quantity(path string, n *Node, s string, units []unit, least, most float64) (v float64, ok bool) {
	for _, u := range units {
		number, is := strings.CutSuffix(s, u.name)
		if !is {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if errors.Is(err, strconv.ErrSyntax) {
			return 0, false
		}
		if v *= u.is; v >= least && v <= most { // which no NaN is
			return v, true
		}
		d.WrongText(n, path, n.Text, "is out of range", fmt.Sprintf("from %s to %s", quantityText(least, units), quantityText(most, units)))
		return 0, true
	}
	return 0, false
}

// quantityText writes a number in the largest unit that gives a whole number.
func quantityText(v float64, units []unit) string {
	for _, u := range units {
		if whole := v / u.is; whole >= 1 && whole == float64(int64(whole)) {
			return strconv.FormatInt(int64(whole), 10) + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
