package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"baton/document"
)

// argument is one that a command's Use names: "NAME", "[NAME]", "NAME..." or "[NAME]...". Other words of Use are flags.
type argument struct {
	name           string
	optional, many bool
}

func arguments(use string) []argument {
	var all []argument
	for _, word := range strings.Fields(use)[1:] {
		a := argument{name: strings.TrimSuffix(word, "...")}
		a.many = a.name != word
		a.name, a.optional = strings.CutPrefix(a.name, "[")
		a.name = strings.TrimSuffix(a.name, "]")
		if !strings.HasPrefix(word, "-") {
			all = append(all, a)
		}
	}
	return all
}

// positional checks the arguments against the command's Use, and that required flags are given. It names what is missing.
func positional(c *cobra.Command, given []string) error {
	var missing []string
	required, most := 0, 0
	for _, a := range arguments(c.Use) {
		most++
		if a.many {
			most += 1 << 20
		}
		if a.optional {
			continue
		}
		if required++; required > len(given) {
			missing = append(missing, a.name)
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, needed := f.Annotations[cobra.BashCompOneRequiredFlag]; needed && !f.Changed {
			name, _ := pflag.UnquoteUsage(f)
			missing = append(missing, fmt.Sprintf("--%s %s", f.Name, strings.ToUpper(name)))
		}
	})
	switch {
	case len(missing) == 1:
		return Usagef("%s is missing; for example: %s", missing[0], example(c))
	case len(missing) > 1:
		return Usagef("%s are missing; for example: %s", strings.Join(missing, " and "), example(c))
	case len(given) > most && detached(c) != nil:
		f := detached(c)
		return Usagef("unexpected argument %q: the value of --%s follows a =: --%[2]s=%[1]s", given[most], f.Name)
	case len(given) > most && most == 0:
		return Usagef("unexpected argument %q: %q takes none", given[0], c.CommandPath())
	case len(given) > most:
		return Usagef("unexpected argument %q; for example: %s", given[most], example(c))
	}
	return nil
}

// detached is a flag that was given without its value, which it may have: "--watch 5s" reads as a flag and an argument.
func detached(c *cobra.Command) (found *pflag.Flag) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.Type() != "bool" {
			found = f
		}
	})
	return found
}

// flagError says in plain words what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		without *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return unknownFlag(c, "-"+unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return unknownFlag(c, "--"+unknown.GetSpecifiedName())
	case errors.As(err, &without):
		f := without.GetFlag()
		name, _ := pflag.UnquoteUsage(f)
		return Usagef("%s is missing after --%s; for example: %s", strings.ToUpper(name), f.Name, example(c))
	case errors.As(err, &invalid):
		flag := "--" + invalid.GetFlag().Name
		if wants, ok := kinds[invalid.GetFlag().Value.Type()]; ok {
			return Usagef("%s: %q is not %s", flag, invalid.GetValue(), wants)
		}
		return UsageError{fmt.Errorf("%s: %w", flag, errors.Unwrap(invalid))}
	}
	return UsageError{err}
}

// unknownFlag is the error of a flag that a command has not, with its dashes.
func unknownFlag(c *cobra.Command, flag string) error {
	names := flagNames(c)
	if meant := document.Nearest(strings.TrimLeft(flag, "-"), names); meant != "" && strings.HasPrefix(flag, "--") {
		return Usagef("unknown flag %s for %q: did you mean --%s?", flag, c.CommandPath(), meant)
	}
	if len(names) > fewFlags {
		return Usagef("unknown flag %s for %q: %q lists them", flag, c.CommandPath(), c.CommandPath()+" --help")
	}
	return Usagef("unknown flag %s for %q: one of --%s", flag, c.CommandPath(), strings.Join(names, ", --"))
}

// fewFlags is how many flags fit a message.
const fewFlags = 10

// kinds say what the flags of pflag's own types take.
var kinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 on", "float64": "a number", "bool": "true or false",
	"stringToString": "NAME=VALUE, or several with commas between them",
	"duration":       "a time with its unit, such as 500ms, 10s or 2m",
}

func flagNames(c *cobra.Command) []string {
	var out []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			out = append(out, f.Name)
		}
	})
	return out
}
