package config

import (
	"regexp"

	"baton/document"
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// congestionForm is what the kernel accepts as an algorithm's name (TCP_CA_NAME_MAX, with its NUL, is 16).
var congestionForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,15}$`)

// systems selects the system's value where a key has another default.
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
