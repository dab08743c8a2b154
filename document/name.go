package document

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	notInName = regexp.MustCompile(`[^a-z0-9]+`)
)

// Label decodes a Name that fits into one DNS label (RFC 1123, section 2.1), as certificates need.
func (d *Decoder) Label(path string, n *Node) string { return d.Name(path, n, 63) }

// Name decodes a name that the user chooses: lower-case letters, digits and hyphens, at most longest bytes.
func (d *Decoder) Name(path string, n *Node, longest int) string {
	if d.told(n, Schema{"type": textSchema["type"], "pattern": nameForm.String(), "maxLength": longest}) {
		return ""
	}
	s := d.Text(path, n)
	if d.err == nil && (len(s) > longest || !nameForm.MatchString(s)) {
		d.WrongText(n, path, s, "is no name here", fmt.Sprintf("at most %d of a-z, 0-9 and, in between, -", longest))
	}
	return s
}

// NameOf derives a Name from a file's name, or returns otherwise if nothing of that is usable.
func NameOf(file string, longest int, otherwise string) string {
	base := strings.ToLower(filepath.Base(file))
	base = strings.Trim(notInName.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), "-")
	if base == "" {
		return otherwise
	}
	return strings.TrimRight(base[:min(len(base), longest)], "-")
}

// deviceForm matches what the kernel accepts as the name of an interface (dev_valid_name), less odd characters that cause trouble in
// scripts.
var deviceForm = regexp.MustCompile(`^[A-Za-z0-9_.@-]{1,15}$`)

// Device decodes the name of a network interface, which need not exist.
func (d *Decoder) Device(path string, n *Node) string {
	if d.told(n, Schema{"type": textSchema["type"], "pattern": deviceForm.String(), "examples": []string{"eth0"}}) {
		return ""
	}
	s := d.Text(path, n)
	if d.err == nil && (!deviceForm.MatchString(s) || s == "." || s == "..") {
		d.WrongText(n, path, s, "is not the name of an interface", "such as eth0")
	}
	return s
}
