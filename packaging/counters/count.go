package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The counters of sources. Those of prose in comments are named after Vale's rules.
const (
	oneWord      = "one-word"
	proseLock    = "prose-lock"
	longLine     = "long-line"
	longFunction = "long-function"
	upwardUse    = "upward-use"
	inComments   = "comments-"
)

// key names a figure. The subject is a part; of a long function it is the function.
type key struct{ counter, subject string }

// place is something that counts.
type place struct {
	path string
	line int
	text string
}

func (p place) String() string { return fmt.Sprintf("%s:%d: %s", p.path, p.line, p.text) }

// count is all that was counted.
type count struct {
	places   map[key][]place
	lengths  map[key]int     // of long functions, in lines
	counters map[string]bool // that were looked for: bounds of others are left alone
	flags    string          // of a command that counts this again
}

func newCount(counters ...string) *count {
	c := &count{places: map[key][]place{}, lengths: map[key]int{}, counters: map[string]bool{}}
	for _, name := range counters {
		c.counters[name] = true
	}
	return c
}

func (c *count) addPlace(counter string, p place) {
	k := key{counter, partOf(p.path)}
	c.places[k] = append(c.places[k], p)
}

// coversCounter reports whether this count would have found what a counter counts.
func (c *count) coversCounter(counter string) bool {
	if len(c.counters) == 0 {
		return strings.HasPrefix(counter, inComments)
	}
	return c.counters[counter]
}

func (c *count) figureOf(k key) int {
	if lines, ok := c.lengths[k]; ok {
		return lines
	}
	return len(c.places[k])
}

// sortedKeys are those of all figures, each with its places in order.
func (c *count) sortedKeys() []key {
	var all []key
	for k, places := range c.places {
		slices.SortFunc(places, comparePlaces)
		all = append(all, k)
	}
	slices.SortFunc(all, compareKeys)
	return all
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.counter, b.counter), cmp.Compare(a.subject, b.subject))
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
}

func (c *count) printPlaces(subject, name string) {
	for _, k := range c.sortedKeys() {
		switch {
		case name == "":
			fmt.Println(k.counter, k.subject, c.figureOf(k))
		case k == key{name, subject}:
			for _, p := range c.places[k] {
				fmt.Println(p)
			}
		}
	}
}

// explainRise says what raised a figure: what counts on changed lines, or else how to see all.
func (c *count) explainRise(k key, bound int, changed map[string]map[int]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d, %d at most\n", k.counter, k.subject, c.figureOf(k), bound)
	found := false
	for _, p := range c.places[k] {
		if k.counter == longFunction || changed[p.path][p.line] {
			fmt.Fprintf(&b, "  %s\n", p)
			found = true
		}
	}
	if !found {
		fmt.Fprintf(&b, "  none is on a changed line; all: go run ./packaging/counters%s -list %s %s\n",
			c.flags, k.subject, k.counter)
	}
	return b.String()
}

// finding is a line of Vale's output about a comment: PATH:LINE:COLUMN:Baton.RULE:MESSAGE.
var finding = regexp.MustCompile(`^([^:]+):(\d+):\d+:Baton\.(\w+):(.*)$`)

func (c *count) addFindings(path string) error {
	c.flags = " -findings " + path
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := finding.FindStringSubmatch(lines.Text())
		if m == nil {
			return fmt.Errorf("%s: %q is no finding of Vale's", path, lines.Text())
		}
		line, err := strconv.Atoi(m[2])
		if err != nil {
			return err
		}
		c.addPlace(inComments+m[3], place{m[1], line, m[4]})
	}
	return lines.Err()
}
