package state_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/resume/part"
	"baton/resume/state"
)

var known = part.Have{Until: -1, Length: 12, Validator: part.Validator{Tag: `"a"`}, Digests: part.Digests{"sha-256": {1, 2}}}

func open(t *testing.T, path string, o state.Options) *state.File {
	t.Helper()
	if o.Wanted.Until == 0 {
		o.Wanted = part.Fresh()
	}
	f, err := state.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f *state.File, h part.Have, b string) {
	t.Helper()
	if err := f.Note(h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, b); err != nil {
		t.Fatal(err)
	}
	if err := f.Note(h); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestContinue(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := open(t, path, state.Options{URL: "http://a/"})
	write(t, f, known, "hello, ")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, state.Options{Continue: true})
	h, ok, ignored := f.Begun()
	want := known
	want.Offset = 7
	if d := cmp.Diff(want, h); d != "" || !ok || ignored != nil {
		t.Fatalf("begun: %s, %v, %v", d, ok, ignored)
	}
	if kept, err := io.ReadAll(f.Kept()); string(kept) != "hello, " || err != nil {
		t.Errorf("kept %q, %v", kept, err)
	}
	if tail, err := f.Tail(3); string(tail) != "o, " || err != nil {
		t.Errorf("tail %q, %v", tail, err)
	}
	write(t, f, h, "world")
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "hello, world" {
		t.Errorf("file: %q", b)
	}
	if d := cmp.Diff([]string{"f"}, names(t, dir)); d != "" {
		t.Errorf("left: %s", d)
	}
}

// TestBelievesTheStateAlone: bytes beyond those that were synced are cut off, and what contradicts itself is not gone on with.
func TestBelievesTheStateAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(path string) error
		offset int64
	}{
		{"more bytes than it says", func(path string) error { return extend(path+".part", "junk") }, 7},
		{"fewer bytes than it says", func(path string) error { return os.Truncate(path+".part", 3) }, 0},
		{"no state", func(path string) error { return os.Remove(path + ".part.json") }, 0},
		{"half a state", func(path string) error { return os.Truncate(path+".part.json", 30) }, 0},
		{"another version", func(path string) error { return os.WriteFile(path+".part.json", []byte(`{"version":2}`), 0o666) }, 0},
		{"a state that was not put into place", func(path string) error {
			return os.WriteFile(path+".part.json.new", []byte(`{"version":1,"offset":3,"length":-1,"until":-1}`), 0o666)
		}, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			f := open(t, path, state.Options{})
			write(t, f, known, "hello, ")
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(path); err != nil {
				t.Fatal(err)
			}
			f = open(t, path, state.Options{Continue: true})
			defer f.Close()
			h, ok, _ := f.Begun()
			st, err := os.Stat(path + ".part")
			if err != nil || h.Offset != tt.offset || ok != (tt.offset > 0) || st.Size() != tt.offset {
				t.Errorf("offset %d, known %v, %d bytes left, %v; want %d", h.Offset, ok, st.Size(), err, tt.offset)
			}
		})
	}
}

func extend(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := open(t, path, state.Options{})
	defer f.Close()
	if _, err := state.Open(path, state.Options{Continue: true, Wanted: part.Fresh()}); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
}

// TestAdopted: a file that was there stays what it is until an answer fits to it.
func TestAdopted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, state.Options{Continue: true, Offset: -1})
	if h, ok, _ := f.Begun(); h.Offset != 4 || !ok {
		t.Fatalf("begun: %+v, %v", h, ok)
	}
	if err := f.Restart(); !errors.Is(err, state.ErrAdopted) {
		t.Errorf("restart: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" || len(names(t, dir)) != 1 {
		t.Fatalf("file: %q; there are %v", b, names(t, dir))
	}
	f = open(t, path, state.Options{Continue: true, Offset: 2})
	h, _, _ := f.Begun()
	h.Length = 4
	write(t, f, h, "xx")
	if _, err := os.Stat(path); err == nil {
		t.Error("half a file is there under its name")
	}
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mixx" {
		t.Errorf("file: %q", b)
	}
}

// TestFinishIncomplete: what lacks bytes, or has no known length, never takes the place of FILE, and can be continued.
func TestFinishIncomplete(t *testing.T) {
	unknown := known
	unknown.Length = -1
	for _, tt := range []struct {
		name string
		have part.Have
		want string
	}{
		{"too short", known, "f f.part f.part.json"},
		{"of unknown length", unknown, "f f.part f.part.json"},
		{"nothing", part.Fresh(), "f"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if err := os.WriteFile(path, []byte("old and good"), 0o666); err != nil {
				t.Fatal(err)
			}
			f := open(t, path, state.Options{})
			content := "hello, "
			if tt.have.Length < 0 && !tt.have.Validator.Strong() {
				content = ""
			}
			write(t, f, tt.have, content)
			if err := f.Finish(); !errors.Is(err, state.ErrIncomplete) {
				t.Errorf("finish: %v", err)
			}
			if b, _ := os.ReadFile(path); string(b) != "old and good" {
				t.Errorf("file: %q", b)
			}
			if d := cmp.Diff(strings.Fields(tt.want), names(t, dir)); d != "" {
				t.Errorf("left: %s", d)
			}
			f = open(t, path, state.Options{Continue: true})
			if h, _, _ := f.Begun(); tt.want != "f" && h.Offset != 7 {
				t.Errorf("begun: %+v", h)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := open(t, path, state.Options{})
	write(t, f, known, "old old old")
	if err := f.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".part.json"); err == nil {
		t.Error("the state of what was thrown away is still there")
	}
	other := known
	other.Validator.Tag = `"b"`
	write(t, f, other, "new")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, state.Options{Continue: true})
	defer f.Close()
	kept, _ := io.ReadAll(f.Kept())
	if h, _, _ := f.Begun(); h.Offset != 3 || h.Validator != other.Validator || string(kept) != "new" {
		t.Errorf("begun: %+v, %q", h, kept)
	}
}

// TestLeavesNothing: a download that got no byte leaves no file, one that is abandoned neither.
func TestLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := open(t, path, state.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, state.Options{})
	write(t, f, known, "x")
	if err := f.Abandon(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"url":"http://a/","from":0,"until":-1,"offset":7,"length":1000,"validator":{"tag":"\"a\""},"digests":{"sha-256":"AQI="}}`))
	f.Add([]byte(`{"version":1,"offset":-1}`))
	f.Add([]byte(`{"version":1,"from":5,"offset":4,"until":-1,"length":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := state.Parse(bytes.Clone(b))
		if err != nil {
			return
		}
		h := s.Have()
		if h.Offset < h.From || h.From < 0 || h.Until >= 0 && h.Offset > h.Until || h.Length >= 0 && h.Offset > h.Length {
			t.Fatalf("%s is believed: %+v", b, h)
		}
	})
}
