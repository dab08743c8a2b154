// Package clitest is for tests of trees of commands.
package clitest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Help fails for a command that does not say in a line what it does, that has no example, or whose examples are not commands of the tree.
func Help(t *testing.T, root *cobra.Command) {
	t.Helper()
	command := regexp.MustCompile(`(?m)^  (` + root.Name() + ` [^|#;>\n]*)`)
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || !strings.HasPrefix(c.Example, "  "+root.Name()) {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for _, m := range command.FindAllStringSubmatch(c.Example, -1) {
			example(t, root, c, m[1])
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				each(sub)
			}
		}
	}
	each(root)
}

func example(t *testing.T, root, of *cobra.Command, line string) {
	t.Helper()
	found, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil || found.HasSubCommands() && !found.Runnable() {
		t.Errorf("%s: the example %q is no command: %v", of.CommandPath(), line, err)
		return
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("%s: the example %q: %v", of.CommandPath(), line, err)
	}
}
