package config

import (
	"regexp"
	"slices"

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
