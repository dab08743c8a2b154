package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// cast is a recording in asciicast v2: https://docs.asciinema.org/manual/asciicast/v2/.
type cast struct {
	header header
	events []event
}

// header has no more than a player needs: asciinema adds the time, the shell and the terminal.
type header struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Title   string `json:"title,omitempty"`
}

// event is output at a time since the start.
type event struct {
	at   time.Duration
	text string
}

func parse(b []byte) (c cast, err error) {
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if err := json.Unmarshal(lines[0], &c.header); err != nil || c.header.Version != 2 {
		return c, fmt.Errorf("the first line is not a header of asciicast v2: %.80s", lines[0])
	}
	for i, line := range lines[1:] {
		var (
			seconds    float64
			kind, text string
		)
		if err := json.Unmarshal(line, &[]any{&seconds, &kind, &text}); err != nil {
			return c, fmt.Errorf("line %d is not an event: %w", i+2, err)
		}
		if kind == "o" {
			c.events = append(c.events, event{time.Duration(seconds * float64(time.Second)), text})
		}
	}
	return c, nil
}

func (c cast) bytes() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(c.header) // neither can fail
	for _, v := range c.events {
		_ = e.Encode([]any{math.Round(v.at.Seconds()*100) / 100, "o", v.text})
	}
	return b.Bytes()
}

var escape = regexp.MustCompile("\x1b\\[[?\\d]*[a-z]")

// text is what is on the screen in the end, and above it.
func (c cast) text() string {
	var b strings.Builder
	for _, e := range c.events {
		b.WriteString(e.text)
	}
	return escape.ReplaceAllString(strings.ReplaceAll(b.String(), "\r\n", "\n"), "") + "\n"
}

// What is read at which speed.
const (
	opening   = 1200 * time.Millisecond // the command
	longest   = 500 * time.Millisecond  // between two lines while the demo works
	paragraph = 800 * time.Millisecond  // each part of the report
	line      = 70 * time.Millisecond   // and each line of it
	part      = 28                      // lines that come at once, at most
)

// What differs from machine to machine and from run to run is made the same.
var same = []struct {
	this *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\S*/baton-lab/[^/\s]+/`), "/tmp/baton-lab/demo/"},
	{regexp.MustCompile(`(Linux \d+\.\d+)[^\s,]*`), "$1"},
	{regexp.MustCompile(` +\r?\n`), "\n"}, // tables end in spaces
	{regexp.MustCompile(`\r?\n`), "\r\n"},
}

// edit makes a recording of the demo readable: the command is seen, pauses are short, and the report, which comes at once, appears
// paragraph by paragraph. It refuses the recording of a demo that failed.
func edit(c cast) (cast, error) {
	out := cast{header: header{Version: 2, Width: c.header.Width, Height: c.header.Height, Title: "bin/baton-lab demo"}}
	now := time.Duration(0)
	show := func(text string, then time.Duration) {
		for _, s := range same {
			text = s.this.ReplaceAllString(text, s.with)
		}
		out.events = append(out.events, event{now, text})
		now += then
	}
	show("\x1b[?25l\x1b[1m# bin/baton-lab demo\x1b[0m\n", opening) // no cursor; bold
	lines := c.lines()
	start := slices.IndexFunc(lines, func(e event) bool { return strings.HasPrefix(e.text, "Linux ") })
	if start < 1 || !allHold.MatchString(lines[len(lines)-1].text) {
		return out, errors.New("the demo failed, or was ended: bin/baton-lab demo tells why")
	}
	progress, report := lines[:start-1], lines[start-1:] // it begins with a blank line
	for i, e := range progress {
		show(e.text, min(lines[i+1].at-e.at, longest))
	}
	report[len(report)-1].text = strings.TrimSpace(report[len(report)-1].text) // no empty line below
	for _, text := range paragraphs(report) {
		show(text, paragraph+time.Duration(strings.Count(text, "\n"))*line)
	}
	return out, nil
}

// allHold is the last line of a report without a failed check.
var allHold = regexp.MustCompile(`^all \d+ checks hold\s*$`)

// lines cuts the output into lines, each with the time of its end.
func (c cast) lines() []event {
	var (
		all  []event
		text string
	)
	for _, e := range c.events {
		for part := range strings.Lines(e.text) {
			if text += part; strings.HasSuffix(text, "\n") {
				all = append(all, event{e.at, text})
				text = ""
			}
		}
	}
	return all
}

// paragraphs puts lines together up to a blank one that no table or drawing follows, but no more than a screen has.
func paragraphs(lines []event) []string {
	var (
		all  []string
		text strings.Builder
		n    int
	)
	for i, e := range lines {
		text.WriteString(e.text)
		n++
		final := i == len(lines)-1
		ends := n > 1 && strings.TrimSpace(e.text) == "" && !final && !strings.HasPrefix(lines[i+1].text, "  ")
		if ends || n == part || final {
			all = append(all, text.String())
			text.Reset()
			n = 0
		}
	}
	return all
}
