package clitest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"baton/cmd/cli"
	"baton/document/documenttest"
)

// Mistyped types each command of a tree wrongly in all ways that it can be: flags and commands that there are not or that are misspelt, values of flags,
// arguments that are missing or too many. Each is told in one line, with what would be right, and makes exit status 2.
func Mistyped(t *testing.T, root *cobra.Command, said func(args ...string) (status int, out, errs string)) (cases int) {
	t.Helper()
	try := func(want string, args ...string) {
		t.Helper()
		cases++
		status, out, errs := said(args...)
		if status != cli.Usage || out != "" || strings.Count(errs, "\n") != 1 || !regexp.MustCompile(want).MatchString(errs) {
			t.Errorf("%q: status %d, output %q, errors %q; want %d and a line like %s", args, status, out, errs, cli.Usage, want)
		}
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.DisableFlagParsing { // another program's
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		with := func(more ...string) []string { return append(append([]string{}, path...), more...) }
		try(`unknown flag --zzzqqq for .*(: one of --|--help" lists them)`, with("--zzzqqq")...)
		if c.HasSubCommands() && !c.Runnable() {
			try(`unknown command "zzzqqq" for .*: one of `, with("zzzqqq")...)
			try(`COMMAND is missing after .*; for example: `, path...)
			for _, sub := range c.Commands() {
				if !sub.Hidden && len(sub.Name()) > 3 {
					try(`unknown command .*: did you mean .*\?`, with(documenttest.Misspell(sub.Name()))...)
				}
				each(sub)
			}
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { mistypedFlag(f, func(want, arg string) { try(want, with(arg)...) }) })
		arguments := slices.DeleteFunc(strings.Fields(c.Use)[1:], func(word string) bool { return strings.HasPrefix(word, "-") })
		if len(arguments) > 0 && !strings.HasPrefix(arguments[0], "[") {
			try(`(is|are) missing; for example: `, path...)
		}
		if !strings.Contains(c.Use, "...") {
			try(`(unexpected argument "zzzqqq"|is missing|are missing)`, with(append(strings.Fields(strings.Repeat("x ", len(arguments))), "zzzqqq")...)...)
		}
	}
	each(root)
	return cases
}

// mistypedFlag mistypes a flag: its name, and its value, as far as the flag itself says what it takes.
func mistypedFlag(f *pflag.Flag, try func(want, arg string)) {
	if f.Hidden {
		return
	}
	if len(f.Name) > 3 {
		try(`unknown flag .*: did you mean --`, "--"+documenttest.Misspell(f.Name))
	}
	switch f.Value.Type() {
	case "string", "stringArray", "stringSlice", "file", "socket":
		return
	}
	try(`--`+f.Name+`: "(zzzqqq)?.*" is (not|neither|no) .+`, "--"+f.Name+"=zzzqqq")
}
