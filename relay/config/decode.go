package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"baton/document"
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// The longest paths that the kernel takes, in bytes.
const (
	unixPath = 107  // sun_path without its final NUL, unix(7)
	filePath = 4095 // PATH_MAX without its final NUL
)

// nameForm is a label of a DNS name (RFC 1123, section 2.1), as relays' names are in their certificates.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (d *decoder) name(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && !nameForm.MatchString(s) {
		d.WrongText(n, path, s, "is no name here", "at most 63 of a-z, 0-9 and, inside, -")
	}
	return s
}

// distinct decodes a list of values that are not empty and not there twice.
func (d *decoder) distinct(path string, n *node, decode func(path string, n *node) string) []string {
	var out []string
	d.NonEmptyList(path, n, func(at string, n *node) {
		s := decode(at, n)
		if d.Err() == nil && slices.Contains(out, s) {
			d.WrongText(n, at, s, "is there twice", "")
		}
		out = append(out, s)
	})
	return out
}

var sizeUnits = []struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// size decodes a number of bytes with its unit, within bounds, both of them included.
func (d *decoder) size(path string, n *node, least, most int) int {
	s := d.Text(path, n)
	for _, u := range sizeUnits {
		count, is := strings.CutSuffix(s, u.name)
		if !is {
			continue
		}
		v, err := strconv.ParseUint(strings.TrimSpace(count), 10, 63)
		if err != nil {
			break
		}
		if v > uint64(most/u.bytes) || int(v)*u.bytes < least {
			d.WrongText(n, path, s, "is out of range", fmt.Sprintf("from %s to %s", sizeText(least), sizeText(most)))
			return 0
		}
		return int(v) * u.bytes
	}
	d.WrongText(n, path, s, "is not a size", "a whole number with its unit, such as 256KiB, 32MiB or 1GiB")
	return 0
}

// sizeText writes a size in the largest unit of which it is a whole number.
func sizeText(bytes int) string {
	for _, u := range slices.Backward(sizeUnits) {
		if bytes%u.bytes == 0 {
			return strconv.Itoa(bytes/u.bytes) + u.name
		}
	}
	return strconv.Itoa(bytes)
}

// The units of tc(8), in bits per second, and the rates that make sense for one trunk.
var rateUnits = []struct {
	name string
	bits float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}

const (
	leastRate = 1e5
	mostRate  = 1e11
)

// rate decodes bits per second with their unit, and gives bytes per second.
func (d *decoder) rate(path string, n *node) int {
	s := d.Text(path, n)
	for _, u := range rateUnits {
		count, is := strings.CutSuffix(strings.ToLower(s), u.name)
		if !is {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
		if err != nil {
			break
		}
		if bits := v * u.bits; bits >= leastRate && bits <= mostRate {
			return int(math.Round(bits / 8))
		}
		d.WrongText(n, path, s, "is out of range", "from 100kbit to 100gbit")
		return 0
	}
	d.WrongText(n, path, s, "is not a rate", "a number with its unit, such as 500mbit or 1gbit")
	return 0
}

// congestionForm is what the kernel takes as the name of an algorithm (TCP_CA_NAME_MAX with its NUL is 16).
var congestionForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,15}$`)

// systems is the word for what the system has, where a key has another default.
const systems = "system"

func (d *decoder) congestion(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && !congestionForm.MatchString(s) {
		d.WrongText(n, path, s, "is not the name of an algorithm", "such as bbr or cubic, or system")
	}
	if s == systems {
		return ""
	}
	return s
}
