package discover

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/router/config"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestParseFile(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"yaml", "- {name: a, address: \"10.2.1.1:80\"}\n- name: b\n  address: \"[fd02::1]:80\"\n  weight: 3\n  priority: 1\n", "a 10.2.1.1:80 1 0; b [fd02::1]:80 3 1"},
		{"json", `[{"name":"a","address":"10.2.1.1:80","weight":0}]`, "a 10.2.1.1:80 0 0"},
		{"json over lines", "[\n  {\n    \"name\": \"a\",\n    \"address\": \"10.2.1.1:80\"\n  }\n]\n", "a 10.2.1.1:80 1 0"},
		{"mapping", "surrogates:\n  - {name: a, address: \"10.2.1.1:80\"}\n", "a 10.2.1.1:80 1 0"},
		{"none", "[]", ""},
		{"empty", "", "f:1:1: is empty"},
		{"truncated json", `[{"name":"a","address":"10.2.1.1:80"},`, "f:1:"},
		{"truncated yaml", "- {name: a, address: \"10.2.1.1:80\"}\n- {name: b, addr", "f:2:"},
		{"no address", "- {name: a}\n", "f:1:4: [0].address: is missing"},
		{"bad address", "- {name: a, address: web:80}\n", "f:1:22: [0].address"},
		{"name", "- {name: \"a b\", address: \"10.2.1.1:80\"}\n", `f:1:10: [0].name: "a b" is not a name here`},
		{"twice", "- {name: a, address: \"10.2.1.1:80\"}\n- {name: a, address: \"10.2.1.2:80\"}\n", `f:2:10: [1].name: "a" is there twice`},
		{"weight", "- {name: a, address: \"10.2.1.1:80\", weight: 257}\n", "f:1:45: [0].weight"},
		{"key", "surrogates: [{name: a, address: \"10.2.1.1:80\", wieght: 1}]\n", "did you mean weight?"},
		{"text", "hello\n", "f:1:1: is a single value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseFile("f", []byte(tt.text))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				var out []string
				for _, s := range s.Surrogates {
					out = append(out, strings.Join([]string{s.Name, s.Address.String(), string(rune('0' + s.Weight)), string(rune('0' + s.Priority))}, " "))
				}
				got = strings.Join(out, "; ")
			}
			if err == nil && got != tt.want || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	for _, text := range []string{"- {name: a, address: \"10.2.1.1:80\"}", `[{"name":"a","address":"[fd02::1]:80","weight":3}]`, "surrogates: []", "[[", "- - -", "&a [*a]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseFile("f", text)
		if (s == nil) == (err == nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") && !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("%v does not say where", err)
			}
			return
		}
		named := make(map[string]bool)
		for _, sg := range s.Surrogates {
			if named[sg.Name] || !config.SurrogateName.MatchString(sg.Name) || !sg.Address.IsValid() || sg.Weight < 0 || sg.Weight > maxWeight {
				t.Errorf("%+v", sg)
			}
			named[sg.Name] = true
		}
	})
}

// watched runs a file's source and returns its outcomes.
func watched(t *testing.T, path string) <-chan Outcome {
	t.Helper()
	out := make(chan Outcome, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewFile(config.Discover{Kind: config.DiscoverFile, File: path, Prefix: "x-"}).Run(ctx, func(o Outcome) { out <- o })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return out
}

func next(t *testing.T, out <-chan Outcome, want string) {
	t.Helper()
	select {
	case o := <-out:
		got := ""
		if o.Err != nil {
			got = o.Err.Error()
		} else {
			for _, s := range o.Set.Surrogates {
				got += s.Name + " "
			}
			got = strings.TrimSpace(got)
		}
		if o.Err == nil && got != want || !strings.Contains(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing, want %q", want)
	}
}

func line(name string) string { return "- {name: " + name + ", address: \"10.2.1.1:80\"}\n" }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFile: the file is there late, is rewritten, replaced, broken and removed.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "surrogates.yaml")
	out := watched(t, path)
	next(t, out, "there is no such file")
	write(t, path, line("a"))
	next(t, out, "x-a")
	write(t, path+".new", line("b"))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	next(t, out, "x-b")
	write(t, path, line("b")+"- {name: c, addr")
	next(t, out, path+":2:")
	write(t, path, line("b")+line("c"))
	next(t, out, "x-b x-c")
	write(t, path, "[]")
	next(t, out, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next(t, out, "there is no such file")
}

// TestFileHalfWritten: a list that grows is not taken before it is at rest.
func TestFileHalfWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "surrogates.yaml")
	write(t, path, line("a"))
	out := watched(t, path)
	next(t, out, "x-a")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"b", "c", "d", "e"} {
		if _, err := f.WriteString(line(name)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(settled / 4)
	}
	next(t, out, "x-b x-c x-d x-e")
}

// TestFileLink: what a link leads to changes, as in a volume of Kubernetes.
func TestFileLink(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(dir, v), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, v, "f"), line("v"+v))
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("1", "data")
	link("data/f", "f")
	out := watched(t, filepath.Join(dir, "f"))
	next(t, out, "x-v1")
	link("2", "data.new")
	if err := os.Rename(filepath.Join(dir, "data.new"), filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	next(t, out, "x-v2")
}
