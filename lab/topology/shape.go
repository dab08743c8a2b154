package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/document"
	"baton/lab/emulator"
)

// ShapeKey is one setting of a link's direction, as a file and a command name it.
type ShapeKey struct {
	Name  string // "delay", "queue.packets"
	Means string
	set   func(s *emulator.Shape, text string) error
}

// ShapeKeys are all settings of a link's direction.
var ShapeKeys = []ShapeKey{
	{"rate", "bits a second, such as 100mbit; 0: no limit", func(s *emulator.Shape, text string) error {
		if text == "0" {
			text = "0bit"
		}
		return s.Rate.UnmarshalText([]byte(text))
	}},
	{"delay", "one way, such as 20ms", duration(func(s *emulator.Shape) *time.Duration { return &s.Delay })},
	{"jitter", "by how much the delay wanders, such as 2ms", duration(func(s *emulator.Shape) *time.Duration { return &s.Jitter })},
	{"loss", "share of packets lost, such as 1%", share(func(s *emulator.Shape) *emulator.Share { return &s.Loss })},
	{"burst", "mean number of packets lost in a row", func(s *emulator.Shape, text string) error {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q: want a number of packets", document.Clip(text))
		}
		s.Burst = f
		return nil
	}},
	{"duplicate", "share of packets delivered twice", share(func(s *emulator.Shape) *emulator.Share { return &s.Duplicate })},
	{"corrupt", "share of packets delivered with a bit flipped", share(func(s *emulator.Shape) *emulator.Share { return &s.Corrupt })},
	{"reorder", "share of packets held back", share(func(s *emulator.Shape) *emulator.Share { return &s.Reorder })},
	{"behind", "how many later packets a packet is held back for", count(func(s *emulator.Shape) *int { return &s.Behind })},
	{"within", "how long a packet is held back at most", duration(func(s *emulator.Shape) *time.Duration { return &s.Within })},
	{"queue.packets", "packets that may wait for the rate", count(func(s *emulator.Shape) *int { return &s.Queue.Packets })},
	{"queue.bytes", "bytes that may wait for the rate", count(func(s *emulator.Shape) *int { return &s.Queue.Bytes })},
	{"queue.discipline", "drop-tail or codel", func(s *emulator.Shape, text string) error {
		s.Queue.Discipline = emulator.Discipline(text)
		return nil
	}},
	{"seed", "of the random choices", func(s *emulator.Shape, text string) error {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q: want a whole number", document.Clip(text))
		}
		s.Seed = n
		return nil
	}},
}

func duration(of func(*emulator.Shape) *time.Duration) func(*emulator.Shape, string) error {
	return func(s *emulator.Shape, text string) error {
		v, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q: want a number with its unit, such as 20ms", document.Clip(text))
		}
		*of(s) = v
		return nil
	}
}

func share(of func(*emulator.Shape) *emulator.Share) func(*emulator.Shape, string) error {
	return func(s *emulator.Shape, text string) error { return of(s).UnmarshalText([]byte(text)) }
}

func count(of func(*emulator.Shape) *int) func(*emulator.Shape, string) error {
	return func(s *emulator.Shape, text string) error {
		v, err := strconv.Atoi(text)
		if err != nil || v < 0 {
			return fmt.Errorf("%q: want a whole number", document.Clip(text))
		}
		*of(s) = v
		return nil
	}
}

// SetShape changes one setting of a shape, given by a name of ShapeKeys. Validate checks whether the shape is possible.
func SetShape(s *emulator.Shape, name, text string) error {
	i := slices.IndexFunc(ShapeKeys, func(k ShapeKey) bool { return k.Name == name })
	if i < 0 {
		return fmt.Errorf("%s is no setting of a link", name)
	}
	if err := ShapeKeys[i].set(s, text); err != nil {
		return fmt.Errorf("%s: %s", name, withoutKind(err))
	}
	return nil
}

// withoutKind drops the word before the quoted value in messages of the emulator's types: `rate "x": want …`.
func withoutKind(err error) string {
	text := err.Error()
	if i := strings.IndexByte(text, '"'); i > 0 {
		text = text[i:]
	}
	return text
}

// shapeKeys decodes the settings of a direction, each into all of the shapes.
func (d *decoder) shapeKeys(shapes ...*emulator.Shape) []key {
	var keys, queue []key
	for _, k := range ShapeKeys {
		decode := func(path string, n *node) {
			text := d.Text(path, n)
			for _, s := range shapes {
				if err := k.set(s, text); err != nil {
					quoted, valid, _ := strings.Cut(withoutKind(err), ": want ")
					d.Wrong(n, path, quoted+" is not possible", valid)
				}
			}
		}
		if name, nested := strings.CutPrefix(k.Name, "queue."); nested {
			queue = append(queue, key{Name: name, Decode: decode})
		} else {
			keys = append(keys, key{Name: k.Name, Decode: decode})
		}
	}
	return append(keys, key{Name: "queue", Decode: func(path string, n *node) { d.Fields(path, n, queue) }})
}

// Describe is a shape in few words, "100mbit, 20ms, loss 1%"; "" for one that does nothing.
func Describe(s emulator.Shape) string {
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(s.Rate > 0, "%v", s.Rate)
	switch {
	case s.Jitter > 0:
		words = append(words, fmt.Sprintf("%v±%v", s.Delay, s.Jitter))
	case s.Delay > 0:
		words = append(words, s.Delay.String())
	}
	add(s.Loss > 0 && s.Burst <= 1, "loss %v", s.Loss)
	add(s.Loss > 0 && s.Burst > 1, "loss %v in bursts of %v", s.Loss, s.Burst)
	add(s.Duplicate > 0, "duplicate %v", s.Duplicate)
	add(s.Corrupt > 0, "corrupt %v", s.Corrupt)
	add(s.Reorder > 0, "reorder %v", s.Reorder)
	add(s.Queue.Packets > 0, "queue %d packets", s.Queue.Packets)
	add(s.Queue.Bytes > 0, "queue %d bytes", s.Queue.Bytes)
	add(s.Queue.Discipline != "", "%s", s.Queue.Discipline)
	return strings.Join(words, ", ")
}
