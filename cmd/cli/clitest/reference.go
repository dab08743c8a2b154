package clitest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"baton/cmd/cli"
)

var update = flag.Bool("update", false, "write the reference of the commands to docs/reference")

// Reference fails if the reference of a program's commands is not what its tree says.
func Reference(t *testing.T, root *cobra.Command) {
	t.Helper()
	file := "../../docs/reference/commands-" + root.Name() + ".md"
	want := reference(root)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not up to date: run make reference", strings.TrimPrefix(file, "../../"))
	}
}

// reference is a page with a section for each command.
func reference(root *cobra.Command) string {
	cli.Prepare(root)
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands of %[1]s\n\n%[2]s. [Commands](../commands.md) is the overview; `%[1]s COMMAND --help` says the same as this page.\n",
		root.Name(), root.Short)
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "completion" && c.Parent().Name() == root.Name() || c.Name() == "help" {
			return
		}
		if c != root {
			section(&b, c)
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
	fmt.Fprintf(&b, "\n## `%[1]s completion`\n\nPrint the completions of a shell: `bash`, `zsh`, `fish` or `powershell`. `%[1]s completion bash --help` says where they go.\n", root.Name())
	return b.String()
}

func section(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s.\n", c.CommandPath(), c.Short)
	if c.Long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(c.Long))
	}
	if c.Runnable() {
		fmt.Fprintf(b, "\nUsage: `%s`\n", c.UseLine())
	}
	var flags []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, row(f))
		}
	})
	if len(flags) > 0 {
		fmt.Fprintf(b, "\n| Flag | Default | Meaning |\n|---|---|---|\n%s", strings.Join(flags, ""))
	}
	if c.Example != "" && c.Runnable() {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
}

// row is a flag as a row of a table.
func row(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	switch {
	case strings.Contains(kind, "|"): // a table's cells end there
		name += " FORMAT"
	case kind != "":
		name += " " + strings.ToUpper(kind)
	}
	standard := ""
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		standard = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, standard, strings.ReplaceAll(usage, "|", `\|`))
}
