package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strings"

	"baton/document"
)

// coverage is the content of a coverage-zone file.
type coverage struct {
	zones     []Zone
	locations map[string]Coordinates
	warnings  []string
}

// Limits of a coverage-zone file. Documents of YAML take 40 times the memory and time of JSON.
const (
	maxCoverage = 256 << 20
	maxDocument = 16 << 20
	maxWarnings = 20
)

// parseCoverage reads either form of a coverage-zone file: JSON as of Apache Traffic Control, or YAML. Messages call the file by name.
func parseCoverage(name string, data []byte) (coverage, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff"); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSON(name, data)
	}
	return parseYAML(name, data)
}

var documentRules = document.Rules{Bytes: maxDocument, Nodes: 1 << 20, Empty: "zones are needed", Root: "a mapping with zones"}

func parseYAML(name string, data []byte) (coverage, error) {
	c := coverage{locations: make(map[string]Coordinates)}
	seen := make(map[netip.Prefix]string)
	_, err := document.ParseAs(name, data, documentRules, func(d *document.Decoder, root *document.Node) *coverage {
		d.Fields("", root, []document.Key{{Name: "zones", Decode: func(path string, n *document.Node) {
			d.Entries(path, n, func(path, site string, n *document.Node) {
				d.List(path, n, func(path string, n *document.Node) {
					p := d.AddressOrPrefix(path, n)
					if other, twice := seen[p]; d.Err() == nil && twice {
						d.WrongText(n, path, n.Text, "is a zone of "+other+" already", "one site")
					}
					seen[p] = site
					c.zones = append(c.zones, Zone{Prefix: p, Site: site})
				})
			})
		}}})
		d.Require("", root, "zones")
		return &c
	})
	if err != nil {
		return coverage{}, err
	}
	return c, nil
}

// walker reads JSON token by token, so that each mistake has its line and a file of a million prefixes is not in memory twice.
type walker struct {
	coverage
	name     string
	data     []byte
	dec      *json.Decoder
	line     int // of the byte at counted
	counted  int
	seen     map[netip.Prefix]string
	mistakes []*document.Error
	broken   bool // the JSON itself: nothing after it can be read
}

func parseJSON(name string, data []byte) (coverage, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	w := &walker{name: name, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1, seen: make(map[netip.Prefix]string)}
	w.locations = make(map[string]Coordinates)
	found := false
	w.object("", func(key string) {
		if key != "coverageZones" { // "revision", "customerName" and the like
			w.skip()
			return
		}
		found = true
		names := make(map[string]bool)
		w.object(key, func(site string) {
			if path := document.Join(key, site); names[site] {
				w.wrong(path, "is there twice", "")
			} else if site == "" {
				w.wrong(path, "has no name", "")
			}
			names[site] = true
			w.zone(document.Join(key, site), site)
		})
	})
	if !w.broken {
		if _, err := w.dec.Token(); err == nil {
			w.wrong("", "something follows the zones", "")
		}
	}
	if !found && !w.broken {
		w.wrong("", "has no coverageZones", `{"coverageZones": {"site": {"network": ["192.0.2.0/24"]}}}`)
	}
	if err := document.JoinErrors(w.mistakes); err != nil {
		return coverage{}, err
	}
	return w.coverage, nil
}

func (w *walker) zone(path, site string) {
	var at Coordinates
	w.object(path, func(key string) {
		path := document.Join(path, key)
		switch key {
		case "network":
			w.prefixes(path, site, false)
		case "network6":
			w.prefixes(path, site, true)
		case "coordinates":
			at = w.coordinates(path)
		default:
			w.warn(path, "is not known, and not used")
			w.skip()
		}
	})
	if !at.zero() {
		w.locations[site] = at
	}
}

func (w *walker) prefixes(path, site string, v6 bool) {
	w.array(path, func(path string) {
		s, ok := w.token().(string)
		if !ok {
			w.wrong(path, "is no text", "address/length")
			return
		}
		s = strings.TrimSpace(s)
		p, err := netip.ParsePrefix(s)
		if a, alone := netip.ParseAddr(s); err != nil && alone == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil || p.Addr().Is4In6():
			w.wrong(path, fmt.Sprintf("%q is not address/length", document.Clip(s)), "such as 192.0.2.0/24 or 2001:db8::/48")
			return
		case p.Addr().Is6() != v6:
			w.wrong(path, fmt.Sprintf("%q is of the other family", document.Clip(s)), "IPv4 in network, IPv6 in network6")
			return
		case p != p.Masked():
			w.warn(path, fmt.Sprintf("%v has bits set after its length, and is taken as %v", p, p.Masked()))
			p = p.Masked()
		}
		if other, twice := w.seen[p]; twice && other != site {
			w.wrong(path, fmt.Sprintf("%v is a zone of %s already", p, document.Clip(other)), "one site")
			return
		} else if twice {
			return
		}
		w.seen[p] = site
		w.zones = append(w.zones, Zone{Prefix: p, Site: site})
	})
}

func (w *walker) coordinates(path string) Coordinates {
	var at Coordinates
	degrees := func(path string, most float64) float64 {
		v, ok := w.token().(float64)
		if !ok || math.Abs(v) > most {
			w.wrong(path, "is out of range", fmt.Sprintf("degrees from %g to %g", -most, most))
			return 0
		}
		return v
	}
	w.object(path, func(key string) {
		switch path := document.Join(path, key); key {
		case "latitude":
			at.Latitude = degrees(path, 90)
		case "longitude":
			at.Longitude = degrees(path, 180)
		default:
			w.skip()
		}
	})
	return at
}

// token returns the next token; nil after a mistake of the JSON itself.
func (w *walker) token() json.Token {
	if w.broken {
		return nil
	}
	t, err := w.dec.Token()
	if err != nil {
		w.wrong("", "is not JSON: "+strings.TrimPrefix(err.Error(), "json: "), "")
		w.broken = true
		return nil
	}
	return t
}

// open reads the begin of an object or array. What else there is, is read and refused.
func (w *walker) open(path string, begin json.Delim, what string) bool {
	t := w.token()
	if t == begin {
		return true
	}
	if w.broken {
		return false
	}
	w.wrong(path, "is not "+what, "")
	w.rest(t)
	return false
}

func (w *walker) object(path string, each func(key string)) {
	if !w.open(path, '{', "an object") {
		return
	}
	for !w.broken && w.dec.More() {
		if key, ok := w.token().(string); ok {
			each(key)
		}
	}
	w.token()
}

func (w *walker) array(path string, each func(path string)) {
	if !w.open(path, '[', "a list") {
		return
	}
	for i := 0; !w.broken && w.dec.More(); i++ {
		each(document.Index(path, i))
	}
	w.token()
}

func (w *walker) skip() { w.rest(w.token()) }

// rest reads what belongs to a token that begins something.
func (w *walker) rest(t json.Token) {
	depth := 0
	for {
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth <= 0 || w.broken {
			return
		}
		t = w.token()
	}
}

// at returns the line that was read to.
func (w *walker) at() int {
	to := min(int(w.dec.InputOffset()), len(w.data))
	w.line += bytes.Count(w.data[w.counted:to], []byte("\n"))
	w.counted = to
	return w.line
}

func (w *walker) wrong(path, problem, valid string) {
	w.mistakes = append(w.mistakes, &document.Error{File: w.name, Line: w.at(), Key: path, Problem: problem, Valid: valid})
}

func (w *walker) warn(path, text string) {
	if len(w.warnings) == maxWarnings {
		w.warnings = append(w.warnings, w.name+": and more of the kind")
	}
	if len(w.warnings) < maxWarnings {
		e := document.Error{File: w.name, Line: w.at(), Key: path, Problem: text}
		w.warnings = append(w.warnings, e.Error())
	}
}
