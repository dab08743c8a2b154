package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"baton/document"
)

// Choice is the value of a flag that is one of some words.
type Choice struct {
	Is string
	of []string
}

// Flag adds a flag to a command; without it the choice is the usual one.
func (c *Choice) Flag(to *cobra.Command, name, usage, usual string, of ...string) {
	c.Is, c.of = usual, of
	to.Flags().Var(c, name, usage)
	_ = to.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
}

// Set takes one of the words.
func (c *Choice) Set(text string) error {
	if err := oneOf(text, c.of); err != nil {
		return err
	}
	c.Is = text
	return nil
}

func (c *Choice) String() string { return c.Is }

// Type is for the help.
func (c *Choice) Type() string { return "word" }

func oneOf(text string, words []string) error {
	if slices.Contains(words, text) {
		return nil
	}
	if meant := document.Nearest(text, words); meant != "" {
		return fmt.Errorf("%q is not one of %s: did you mean %s?", text, strings.Join(words, ", "), meant)
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
}
