package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"baton/document"
)

// Elsewhere is the annotation of a group for words that are commands of another program: "WORD=PROGRAM WORD,...".
const Elsewhere = "elsewhere"

// prepare gives a command, and all below it, the rules of this package.
func prepare(c *cobra.Command) {
	c.SetFlagErrorFunc(flagError)
	for _, sub := range c.Commands() {
		prepare(sub)
	}
	c.Args = positional
	if isGroup(c) {
		c.Args = cobra.ArbitraryArgs // see misled
	}
	if shell, ok := completions[c.Name()]; ok && c.Example == "" {
		c.Example = "  " + c.Root().Name() + " completion " + strings.ReplaceAll(shell, "NAME", c.Root().Name())
	}
}

// completions are examples of cobra's commands, by their names.
var completions = map[string]string{
	"completion": "bash > /etc/bash_completion.d/NAME", "bash": "bash > /etc/bash_completion.d/NAME", "zsh": `zsh > "${fpath[1]}/_NAME"`,
	"fish": "fish > ~/.config/fish/completions/NAME.fish", "powershell": "powershell | Out-String | Invoke-Expression",
}

// isGroup tells whether a command only holds others.
func isGroup(c *cobra.Command) bool { return c.HasSubCommands() && !c.Runnable() }

// misled refuses args that lead to no command: a word of them ought to be one and is none, or there is none. It comes before flags are parsed:
// --help after such a word would hide that it is wrong.
func misled(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	c, rest, err := root.Find(args)
	if err != nil || !isGroup(c) {
		return nil
	}
	for _, word := range rest {
		switch {
		case !strings.HasPrefix(word, "-"):
			return unknownCommand(c, word)
		case slices.Contains([]string{"-h", "--help", "-v", "--version"}, word):
		case isFlag(c, word):
			return missingCommand(c) // the flag is of one that was left out
		default:
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			name, _, _ := strings.Cut(word, "=")
			return unknownFlag(c, name)
		}
	}
	if len(rest) == 0 {
		return missingCommand(c)
	}
	return nil
}

// isFlag tells whether a command below c has a flag.
func isFlag(c *cobra.Command, word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	has := func(c *cobra.Command) bool {
		if strings.HasPrefix(word, "--") {
			return c.Flags().Lookup(name) != nil
		}
		return name != "" && c.Flags().ShorthandLookup(name[:1]) != nil
	}
	return slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return has(sub) || isFlag(sub, word) })
}

func unknownCommand(c *cobra.Command, word string) error {
	wrong := fmt.Sprintf("unknown command %q for %q", word, c.CommandPath())
	for pair := range strings.SplitSeq(c.Annotations[Elsewhere], ",") {
		if name, command, ok := strings.Cut(pair, "="); ok && name == word {
			return Usagef("%s: it is %q", wrong, command)
		}
	}
	if meant := suggestions(c, word); len(meant) > 0 {
		return Usagef("%s: did you mean %s?", wrong, either(meant))
	}
	return Usagef("%s: one of %s", wrong, strings.Join(names(c), ", "))
}

// suggestions are the commands that a word may have meant: those beside it that are spelt alike, and those of its name elsewhere.
func suggestions(c *cobra.Command, word string) []string {
	var all []string
	meant := document.Nearest(word, names(c))
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && (sub.Name() == meant || strings.HasPrefix(sub.Name(), word) || slices.Contains(sub.SuggestFor, word)) {
			all = append(all, sub.CommandPath())
		}
	}
	var named func(*cobra.Command)
	named = func(of *cobra.Command) {
		for _, sub := range of.Commands() {
			if path := sub.CommandPath(); sub.IsAvailableCommand() && !slices.Contains(all, path) &&
				(sub.Name() == word || slices.Contains(sub.SuggestFor, word)) {
				all = append(all, path)
			}
			named(sub)
		}
	}
	if len(all) == 0 {
		named(c.Root())
	}
	return all
}

// missingCommand is the error of a group that was given no command.
func missingCommand(c *cobra.Command) error {
	return Usagef("COMMAND is missing after %q: one of %s; for example: %s", c.CommandPath(), strings.Join(names(c), ", "), example(c))
}

func names(c *cobra.Command) []string {
	var out []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, sub.Name())
		}
	}
	return out
}

// example is the first of a command's examples, without its remark.
func example(c *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	first, _, _ = strings.Cut(first, "  #")
	return strings.TrimSpace(first)
}

func either(all []string) string {
	for i := range all {
		all[i] = fmt.Sprintf("%q", all[i])
	}
	return strings.Join(all, " or ")
}

// helpCommand is cobra's, but that it refuses what it does not know.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]...",
		Short:   "Show the help of a command",
		Example: "  " + root.Name() + " help " + names(root)[0],
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil || of == nil {
				return Usagef("there is no command %q", strings.Join(args, " "))
			}
			if len(rest) > 0 {
				return unknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}
