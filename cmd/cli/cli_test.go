package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		status  int
		printed string
	}{
		{"nothing", nil, 0, ""},
		{"a failure", errors.New("it failed"), Failure, "prog: it failed\n"},
		{"the user's", Usagef("no %s", "such"), Usage, "prog: no such\n"},
		{"the user's, wrapped", errors.Join(errors.New("a"), Usagef("b")), Usage, "prog: a\nprog: b\n"},
		{"one with its own", ExitError{Err: errors.New("c"), Status: 28}, 28, "prog: c\n"},
		{"one that is silent", ExitError{Err: errors.New("c"), Status: 28, Silent: true}, 28, ""},
	} {
		var out, errs bytes.Buffer
		root := &cobra.Command{Use: "prog"}
		root.AddCommand(&cobra.Command{Use: "do", Example: "  prog do", RunE: func(*cobra.Command, []string) error { return tt.err }})
		if status := Run(t.Context(), Env{&out, &errs}, root, []string{"do"}); status != tt.status || errs.String() != tt.printed || out.Len() > 0 {
			t.Errorf("%s: status %d, want %d; printed %q, want %q", tt.name, status, tt.status, errs.String(), tt.printed)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		use  string
		want []argument
	}{
		{"run", nil},
		{"explain URL", []argument{{name: "URL"}}},
		{"level [SITE] LEVEL", []argument{{name: "SITE", optional: true}, {name: "LEVEL"}}},
		{"exec HOST COMMAND [ARGUMENT]...", []argument{{name: "HOST"}, {name: "COMMAND"}, {name: "ARGUMENT", optional: true, many: true}}},
		{"get URL...", []argument{{name: "URL", many: true}}},
		{"stop --graceful", nil},
	} {
		if got := arguments(tt.use); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.use, got, tt.want)
		}
	}
}

// TestCompletion: shells get completions, which ask the program by a hidden command.
func TestCompletion(t *testing.T) {
	tree := func() *cobra.Command {
		root := &cobra.Command{Use: "prog"}
		group := &cobra.Command{Use: "group"}
		do := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return nil }}
		new(Format).Flag(do)
		group.AddCommand(do)
		root.AddCommand(group)
		return root
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"completion", "bash"}, "# bash completion"},
		{[]string{"completion", "zsh", "--help"}, `prog completion zsh > "${fpath[1]}/_prog"`},
		{[]string{cobra.ShellCompRequestCmd, "group", ""}, "do\n"},
		{[]string{cobra.ShellCompRequestCmd, "group", "do", "-o", ""}, "table\nwide\njson\nyaml\n"},
	} {
		var out, errs bytes.Buffer
		if status := Run(t.Context(), Env{&out, &errs}, tree(), tt.args); status != 0 || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%v: status %d, %.300q%s, want %q", tt.args, status, out.String(), errs.String(), tt.want)
		}
	}
}

// TestFormats: JSON and YAML have the same keys and values, whatever is in them.
func TestFormats(t *testing.T) {
	data := struct {
		Name  string            `json:"name"`
		Texts []string          `json:"texts"`
		Big   uint64            `json:"big"`
		Share float64           `json:"share"`
		Some  map[string]int    `json:"some"`
		None  []string          `json:"none"`
		Odd   map[string]string `json:"odd"`
	}{
		"yes", []string{"", "null", "1.0", "12:30", "- a", "a: b", "#", "'", `"`, "a\nb\n", "é…", "0x10", "~", "<&>", " lead"},
		math.MaxUint64, 0.25, map[string]int{"b": 1, "a": -2}, nil, map[string]string{"a: b": "c", "1": "2"},
	}
	parsed := func(format Format, parse func([]byte, any) error) any {
		var out bytes.Buffer
		if err := format.Print(&out, data, nil); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := parse(out.Bytes(), &v); err != nil {
			t.Fatalf("%v of\n%s", err, out.String())
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	exactly := func(b []byte, v any) error {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		return d.Decode(v)
	}
	fromJSON, fromYAML := parsed(JSON, exactly), parsed(YAML, func(b []byte, v any) error { return yaml.Unmarshal(b, v) })
	if fromJSON != fromYAML {
		t.Errorf("JSON has\n%s\nYAML\n%s", fromJSON, fromYAML)
	}
	for format, want := range map[Format]bool{Table: false, Wide: true} {
		asked := !want
		_ = format.Print(io.Discard, data, func(_ io.Writer, wide bool) error { asked = wide; return nil })
		if asked != want {
			t.Errorf("%s: wide is %v", format, asked)
		}
	}
}

// TestItems: many results are lines of JSON, or documents of YAML.
func TestItems(t *testing.T) {
	for format, want := range map[Format]string{JSON: "{\"id\":1}\n{\"id\":2}\n", YAML: "---\nid: 1\n---\nid: 2\n"} {
		var out bytes.Buffer
		for n := range 2 {
			if err := format.Item(&out, map[string]int{"id": n + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", format, out.String(), want)
		}
	}
}

func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	shown := 0
	show := func(context.Context) error {
		if shown++; shown == 3 {
			cancel()
		}
		return nil
	}
	if err := (&Watch{every: time.Millisecond}).Run(ctx, &out, show); err != nil || shown != 3 || out.String() != "\n\n" {
		t.Errorf("%v: shown %d times, %q", err, shown, out.String())
	}
	if err := new(Watch).Run(t.Context(), &out, show); err != nil || shown != 4 {
		t.Errorf("%v: shown %d times, want once more", err, shown-3)
	}
	failed := errors.New("gone")
	if err := (&Watch{every: time.Hour}).Run(t.Context(), &out, func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v, want what failed", err)
	}
}

func TestLog(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "level=INFO msg=b\n"},
		{[]string{"--log-level", "debug"}, "level=DEBUG msg=a\n"},
		{[]string{"--log-format", "json"}, `"level":"INFO","msg":"b"}` + "\n"},
	} {
		var (
			log Log
			out bytes.Buffer
		)
		c := &cobra.Command{Use: "run", RunE: func(*cobra.Command, []string) error {
			l := log.Logger(&out)
			l.Debug("a")
			l.Info("b")
			return nil
		}}
		log.Flags(c)
		c.SetArgs(tt.args)
		if err := c.Execute(); err != nil || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%v: %v: %q, want %q", tt.args, err, out.String(), tt.want)
		}
	}
}

// TestLogOfFailure: what ends a daemon is a line of JSON where all are, and printed once; the exit status stays.
func TestLogOfFailure(t *testing.T) {
	wrong := Usagef("a\nb")
	for _, tt := range []struct {
		args   []string
		err    error
		status int
		lines  []string
	}{
		{[]string{"do"}, wrong, Usage, []string{"prog: a", "prog: b"}},
		{[]string{"do", "--log-format", "json"}, wrong, Usage, []string{`"level":"ERROR","msg":"a"}`, `"level":"ERROR","msg":"b"}`}},
		{[]string{"do", "--log-format", "json"}, errors.New("c"), Failure, []string{`"msg":"c"}`}},
		{[]string{"do", "--log-format", "json"}, nil, 0, nil},
	} {
		var (
			log  Log
			errs bytes.Buffer
		)
		root := &cobra.Command{Use: "prog"}
		do := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return log.Failed(log.Logger(&errs), tt.err) }}
		log.Flags(do)
		root.AddCommand(do)
		status := Run(t.Context(), Env{io.Discard, &errs}, root, tt.args)
		lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		if errs.Len() == 0 {
			lines = nil
		}
		ok := status == tt.status && len(lines) == len(tt.lines)
		for i := range lines {
			ok = ok && strings.HasSuffix(lines[i], tt.lines[i])
		}
		if !ok {
			t.Errorf("%v of %v: status %d, %q, want %d, %q", tt.args, tt.err, status, lines, tt.status, tt.lines)
		}
	}
}
