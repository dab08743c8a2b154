package proxyheader

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// flow is a client that talks to a parser.
type flow struct {
	parser   Parser
	bytewise bool
	waiting  []byte // what has come and was not taken
	told     []byte // to the client, since that was last looked at
	done     bool
	err      error
}

// come feeds bytes as an event loop does.
func (f *flow) come(t *testing.T, b []byte) {
	t.Helper()
	step := len(b)
	if f.bytewise {
		step = 1
	}
	for ; len(b) > 0; b = b[step:] {
		f.waiting = append(f.waiting, b[:step]...)
		if f.done || f.err != nil {
			continue
		}
		n, reply, done, err := f.parser.Feed(f.waiting)
		f.waiting, f.told, f.done, f.err = f.waiting[n:], append(f.told, reply...), done, err
		if done && err != nil {
			t.Fatalf("done, and %v", err)
		}
	}
}

func (t Target) String() string {
	server := t.Server.String()
	if t.Host != "" {
		server = fmt.Sprintf("%s:%d", t.Host, t.Port)
	}
	if t.Client.IsValid() {
		return t.Client.String() + " " + server
	}
	return server
}

// TestTranscripts plays the files of testdata, whose lines are explained in curl.txt: as the bytes came, and one by one.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d transcripts, error %v", len(files), err)
	}
	for _, file := range files {
		for _, bytewise := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, bytewise %v", filepath.Base(file), bytewise), func(t *testing.T) { play(t, file, bytewise) })
		}
	}
}

func play(t *testing.T, file string, bytewise bool) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var now *flow
	flows := 0
	for number, lines := 1, bufio.NewScanner(f); lines.Scan(); number++ {
		verb, text, _ := strings.Cut(lines.Text(), " ")
		where := fmt.Sprintf("%s:%d", file, number)
		if strings.HasPrefix(verb, "#") || verb == "" {
			continue
		}
		if verb != ">" && verb != "<" && now != nil && len(now.told) > 0 {
			if verb != "!" && verb != "=" { // which may stand in front of what we say
				t.Errorf("%s: before this, we say %q", where, now.told)
			}
		}
		if verb == "flow" {
			mode, _, _ := strings.Cut(text, " ")
			now = &flow{parser: New(config.Mode(mode)), bytewise: bytewise}
			flows++
			continue
		}
		now.line(t, where, verb, text)
	}
	if flows < 2 {
		t.Errorf("%d flows", flows)
	}
}

// line plays one line of a flow.
func (f *flow) line(t *testing.T, where, verb, text string) {
	t.Helper()
	switch verb {
	case ">":
		f.come(t, unquote(t, where, text))
	case "<":
		if want := unquote(t, where, text); string(f.told) != string(want) {
			t.Errorf("%s:\ngot  %q\nwant %q", where, f.told, want)
		}
		f.told = nil
	case "=":
		if !f.done || f.err != nil || f.parser.Target.String() != text {
			t.Errorf("%s: got %v, done %v, error %v", where, f.parser.Target, f.done, f.err)
		}
	case "!":
		if f.done || f.err == nil || !strings.Contains(f.err.Error(), text) {
			t.Errorf("%s: got %v, done %v, error %v", where, f.parser.Target, f.done, f.err)
		}
	case "+":
		if want := unquote(t, where, text); string(f.waiting) != string(want) {
			t.Errorf("%s:\ngot  %q\nwant %q", where, f.waiting, want)
		}
	case "granted":
		local, _ := netip.ParseAddrPort(text)
		f.told = f.parser.AppendGranted(f.told, local)
	case "refused":
		f.told = f.parser.AppendRefused(f.told, status(t, where, text))
	default:
		t.Fatalf("%s: unknown line", where)
	}
}

func unquote(t *testing.T, where, text string) []byte {
	t.Helper()
	s, err := strconv.Unquote(text)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return []byte(s)
}

func status(t *testing.T, where, name string) trunkproto.Status {
	t.Helper()
	for s := trunkproto.Connected; s <= trunkproto.Stopping; s++ {
		if s.String() == name {
			return s
		}
	}
	t.Fatalf("%s: no status is called %q", where, name)
	return 0
}
