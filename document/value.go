package document

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scalar returns the text of a single value, on one line unless lines is set; false if there is an error.
func (d *Decoder) scalar(path string, n *Node, lines bool) (string, bool) {
	if d.told(n, textSchema) {
		return "", false
	}
	if n.Kind != Scalar {
		d.Wrong(n, path, "is "+n.Kind.String(), "a single value; quote it when it begins with [ or {")
	}
	for _, c := range []byte(n.Text) {
		if c >= ' ' && c != 0x7f || lines && (c == '\t' || c == '\n') {
			continue
		}
		valid := "printable text on one line"
		if lines {
			valid = "printable text"
		}
		d.Wrong(n, path, fmt.Sprintf("%q holds a control character", Clip(n.Text)), valid)
		break
	}
	if d.err != nil {
		return "", false
	}
	return n.Text, true
}

func (d *Decoder) nonEmpty(path string, n *Node, lines bool) string {
	s, ok := d.scalar(path, n, lines)
	if ok && s == "" {
		d.Wrong(n, path, "is empty", "at least one character")
	}
	return s
}

// Text decodes a non-empty text on one line.
func (d *Decoder) Text(path string, n *Node) string { return d.nonEmpty(path, n, false) }

// Lines decodes a non-empty text that may contain line breaks and tabs.
func (d *Decoder) Lines(path string, n *Node) string { return d.nonEmpty(path, n, true) }

// Texts decodes a list of Text.
func (d *Decoder) Texts(path string, n *Node) []string {
	var out []string
	d.List(path, n, func(at string, n *Node) { out = append(out, d.Text(at, n)) })
	return out
}

// Integer decodes a whole number from low to high.
func (d *Decoder) Integer(path string, n *Node, low, high int) int {
	if d.told(n, integerSchema(low, high)) {
		return 0
	}
	s, ok := d.scalar(path, n, false)
	v, err := strconv.Atoi(s)
	if ok && err == nil && v >= low && v <= high {
		return v
	}
	d.Wrong(n, path, fmt.Sprintf("%q is out of range", Clip(s)), fmt.Sprintf("a whole number from %d to %d", low, high))
	return 0
}

// Duration decodes a duration above zero, with its unit.
func (d *Decoder) Duration(path string, n *Node) time.Duration {
	if d.told(n, durationSchema) {
		return 0
	}
	s, ok := d.scalar(path, n, false)
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		d.Wrong(n, path, fmt.Sprintf("%q is not a duration", Clip(s)), "a number with its unit, such as 500ms, 10s or 1h")
	case v <= 0:
		d.Wrong(n, path, fmt.Sprintf("%q is not above zero", Clip(s)), "such as 500ms, 10s or 1h")
	case ok:
		return v
	}
	return 0
}

// Boolean decodes true or false; yes, on and the like are refused, because some YAML parsers take them for text.
func (d *Decoder) Boolean(path string, n *Node) bool {
	if d.told(n, booleanSchema) {
		return false
	}
	s, ok := d.scalar(path, n, false)
	if ok && s != "true" && s != "false" {
		valid := "true or false"
		if meant := Nearest(s, []string{"true", "false"}); meant != "" {
			valid = "did you mean " + meant + "?"
		}
		d.WrongText(n, path, s, "is not a boolean", valid)
	}
	return s == "true"
}

// Choice decodes one of the words; problem describes any other: "is not a mode".
func (d *Decoder) Choice(path string, n *Node, problem string, words ...string) string {
	if d.told(n, choiceSchema(words)) {
		return ""
	}
	s, ok := d.scalar(path, n, false)
	if !ok || slices.Contains(words, s) {
		return s
	}
	last := len(words) - 1
	valid := words[last]
	if best := Nearest(s, words); best != "" {
		valid = "did you mean " + best + "?"
	} else if last > 0 {
		valid = strings.Join(words[:last], ", ") + " or " + valid
	}
	d.Wrong(n, path, fmt.Sprintf("%q %s", Clip(s), problem), valid)
	return ""
}

// Regexp decodes a regular expression, which is not anchored by default.
func (d *Decoder) Regexp(path string, n *Node) *regexp.Regexp {
	s := d.Text(path, n)
	if d.Err() != nil {
		return nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		d.Wrong(n, path, strings.TrimPrefix(err.Error(), "error parsing regexp: "), "an RE2 expression")
		return nil
	}
	return re
}
