package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// bounds are the committed figures: lines of COUNTER SUBJECT FIGURE. What has no line has the bound 0.
type bounds struct {
	heading []string // the comment at the beginning of the file
	figures map[key]int
}

func readBounds(path string) (*bounds, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := &bounds{figures: map[key]int{}}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			b.heading = append(b.heading, line)
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("%s:%d: write COUNTER SUBJECT FIGURE, not %q", path, n, line)
		}
		figure, err := strconv.Atoi(words[2])
		if err != nil || figure < 1 {
			return nil, fmt.Errorf("%s:%d: the figure must be a number above 0, not %q", path, n, words[2])
		}
		k := key{words[0], words[1]}
		if b.figures[k] != 0 {
			return nil, fmt.Errorf("%s:%d: %s %s has a line already", path, n, k.counter, k.subject)
		}
		b.figures[k] = figure
	}
	return b, nil
}

// compareFigures returns the figures above and below their bounds.
func (b *bounds) compareFigures(c *count) (above, below []key) {
	for _, k := range c.sortedKeys() {
		if c.figureOf(k) > b.figures[k] {
			above = append(above, k)
		}
	}
	for k, bound := range b.figures {
		if c.coversCounter(k.counter) && c.figureOf(k) < bound {
			below = append(below, k)
		}
	}
	slices.SortFunc(below, compareKeys)
	return above, below
}

// lowerBounds writes the file with the figures of a count for some of its bounds.
func (b *bounds) lowerBounds(path string, c *count, below []key) error {
	for _, k := range below {
		if b.figures[k] = c.figureOf(k); b.figures[k] == 0 {
			delete(b.figures, k)
		}
	}
	var keys []key
	for k := range b.figures {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	lines := slices.Clone(b.heading)
	for _, k := range keys {
		lines = append(lines, fmt.Sprintf("%s %s %d", k.counter, k.subject, b.figures[k]))
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
