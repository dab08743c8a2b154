package clitest

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"baton/cmd/cli/part"
)

// verbs are those of every part, and which of shorts they have as flags.
var verbs = map[string][]string{
	"run": {"config", "log-format", "log-level"}, "check": {"config", "output"}, "status": {"config", "control", "output", "watch"},
	"reload": {"config", "control", "output"}, "cleanup": {"config", "output"}, "schema": nil,
}

var shorts = map[string]string{"config": "c", "output": "o", "watch": "w", "control": "", "log-format": "", "log-level": ""}

// Verbs fails where a part has not the verbs of all parts, with the same flags and files, and those of its own.
func Verbs(t *testing.T, root *cobra.Command, p *part.Part, own []string) {
	t.Helper()
	c := Find(t, root, p.Name)
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
		for _, flag := range []string{"config", "output", "watch"} {
			if f := sub.Flags().Lookup(flag); f != nil && f.Shorthand != shorts[flag] {
				t.Errorf("%s: --%s has the short form %q", sub.CommandPath(), flag, f.Shorthand)
			}
		}
		if f := sub.Flags().Lookup("config"); f != nil && f.DefValue != "/etc/baton/"+p.Name+".yaml" {
			t.Errorf("%s: the default of --config is %s", sub.CommandPath(), f.DefValue)
		}
	}
	want := append([]string{"check", "cleanup", "reload", "run", "schema", "status"}, own...)
	slices.Sort(names)
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("%s has %v, want %v", p.Name, names, want)
	}
	for verb, flags := range verbs {
		var have []string
		for flag := range shorts {
			if Find(t, c, verb).Flags().Lookup(flag) != nil {
				have = append(have, flag)
			}
		}
		if slices.Sort(have); !slices.Equal(have, flags) {
			t.Errorf("%s %s has the flags %v, want %v", c.CommandPath(), verb, have, flags)
		}
	}
	for _, text := range []string{p.Short, p.Long, p.Runs, p.Reloads, p.Cleans, p.Shows} {
		if text == "" {
			t.Errorf("%s lacks a text of its help", p.Name)
		}
	}
}

// Find is a command below another one.
func Find(t *testing.T, c *cobra.Command, name string) *cobra.Command {
	t.Helper()
	i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name })
	if i < 0 {
		t.Fatalf("%s has no command %s", c.CommandPath(), name)
	}
	return c.Commands()[i]
}
