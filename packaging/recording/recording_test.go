package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func report(lines ...string) string {
	return strings.ReplaceAll("\nLinux 6.18.44-x, 2 processors\n\n"+strings.Join(lines, "\n")+"\n", "\n", "\r\n")
}

func TestEdit(t *testing.T) {
	c := cast{header: header{2, columns, rows, "a title"}, events: []event{
		{0, "building\r\nhash"},
		{100 * time.Millisecond, "ing\r\n"},
		{time.Minute, "one connection\r\n" + report("router.yaml", "", "  state: /tmp/x/baton-lab/baton-12-ab-1/bpf", "  a:   ", "", "ok  it", "", "all 1 checks hold")},
	}}
	got, err := edit(c)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, e := range got.events {
		text = append(text, fmt.Sprintf("%v %s", e.at, strings.ReplaceAll(e.text, "\r\n", "|")))
	}
	want := []string{
		"0s \x1b[?25l\x1b[1m# bin/baton-lab demo\x1b[0m|",
		"1.2s building|",
		"1.3s hashing|", // the next line is a minute later
		"1.8s one connection|",
		"1.8s |Linux 6.18, 2 processors||",
		"2.81s router.yaml||  state: /tmp/baton-lab/demo/bpf|  a:||",
		"3.96s ok  it||",
		"4.9s all 1 checks hold",
	}
	if !slices.Equal(text, want) {
		t.Errorf("edited:\n%s\nwant:\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
	back, err := parse(got.bytes())
	if err != nil || len(back.events) != len(got.events) || back.events[5].text != got.events[5].text {
		t.Errorf("read back: %v, %d events, want %d", err, len(back.events), len(got.events))
	}
}

func TestEditCutsLongParagraphs(t *testing.T) {
	long := slices.Repeat([]string{"  line"}, 2*part+3)
	got, err := edit(cast{events: []event{{0, "x\r\n" + report(append(long, "", "all 2 checks hold")...)}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range got.events {
		if lines := strings.Count(e.text, "\n"); lines > part {
			t.Errorf("%d lines come at once, want %d at most", lines, part)
		}
		n += strings.Count(e.text, "  line")
	}
	if n != len(long) {
		t.Errorf("%d of %d lines are left", n, len(long))
	}
}

// TestEditRefuses recordings that nobody should see.
func TestEditRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no report": "building\r\n", "failed check": report("FAILED  it", "", "1 of 2 checks failed"), "error": "building\r\nError: no nginx\r\n",
	} {
		if _, err := edit(cast{events: []event{{0, text}}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, text := range map[string]string{"no header": "[0,\"o\",\"x\"]", "version": `{"version":3}`, "event": "{\"version\":2}\nx"} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("parse %s: no error", name)
		}
	}
}

// picture is the part of docs/demo.svg that is compared.
type picture struct {
	Groups []group `xml:"g"`
	Defs   []group `xml:"defs>g"`
}

type group struct {
	ID        string   `xml:"id,attr"`
	Transform string   `xml:"transform,attr"`
	Groups    []group  `xml:"g"`
	Text      []string `xml:"text"`
	Use       []struct {
		Line string `xml:"href,attr"`
	} `xml:"use"`
}

// screen gives the lines of an SVG's last picture, and where the picture is without animation.
func screen(t *testing.T, svg []byte) (text []string, transform string) {
	t.Helper()
	var root struct {
		Screen picture `xml:"svg"`
	}
	if err := xml.Unmarshal(svg, &root); err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]string)
	for _, g := range root.Screen.Defs {
		lines["#"+g.ID] = strings.TrimRight(strings.Join(g.Text, ""), " ")
	}
	if len(root.Screen.Groups) != 1 || len(root.Screen.Groups[0].Groups) < 10 {
		t.Fatalf("docs/demo.svg has no pictures: %+v", root.Screen.Groups)
	}
	view := root.Screen.Groups[0]
	for _, u := range view.Groups[len(view.Groups)-1].Use {
		text = append(text, lines[u.Line])
	}
	return text, view.Transform
}

func published(t *testing.T) (svg []byte, text string, c cast) {
	t.Helper()
	var files [3][]byte
	for i, name := range []string{"demo.svg", "results/demo.txt", "demo.cast"} {
		var err error
		if files[i], err = os.ReadFile("../../docs/" + name); err != nil {
			t.Fatal(err)
		}
	}
	c, err := parse(files[2])
	if err != nil {
		t.Fatal(err)
	}
	return files[0], string(files[1]), c
}

// TestRecording: docs/demo.svg and docs/results/demo.txt are of docs/demo.cast, and without animation the SVG shows the end.
func TestRecording(t *testing.T) {
	svg, text, c := published(t)
	if text != c.text() {
		t.Error("docs/results/demo.txt is not the text of docs/demo.cast (make recording makes both again)")
	}
	empty := func(s string) bool { return s == "" }
	want := strings.Split(strings.TrimSuffix(c.text(), "\n"), "\n")
	want = slices.DeleteFunc(want[max(0, len(want)-rows):], empty)
	got, transform := screen(t, svg)
	if got = slices.DeleteFunc(got, empty); !slices.Equal(got, want) {
		t.Errorf("docs/demo.svg ends in\n%s\n\nbut docs/demo.cast in\n%s\n\n(make recording makes both again)", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if at := last.FindSubmatch(svg); at == nil || transform != fmt.Sprintf("translate(0 %s)", at[1]) {
		t.Errorf("without animation the picture is at %q, want the last of the animation, %s", transform, at)
	}
}

// TestRecordingIsSelfContained: it is small, loads and runs nothing, and does not name the machine it was made on.
func TestRecordingIsSelfContained(t *testing.T) {
	svg, text, c := published(t)
	if len(svg) > 400_000 {
		t.Errorf("docs/demo.svg has %d bytes, 400000 at most", len(svg))
	}
	if found := regexp.MustCompile(`(?i)<script|<image|@import|url\(|\bon\w+=|href="[^#]`).FindAll(svg, -1); found != nil {
		t.Errorf("docs/demo.svg loads or runs something: %q", found)
	}
	for _, file := range []string{string(svg), text, string(c.bytes())} {
		if found := regexp.MustCompile(`/(root|home|work|usr)/\S*|baton-\d+-\w+|Linux \d+\.\d+[.-]`).FindAllString(file, -1); found != nil {
			t.Errorf("the recording names this machine: %q", found)
		}
	}
}
