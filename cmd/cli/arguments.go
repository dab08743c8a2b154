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
	case len(given) > most && most == 0:
		return Usagef("unexpected argument %q: %q takes none", given[0], c.CommandPath())
	case len(given) > most:
		return Usagef("unexpected argument %q; for example: %s", given[most], example(c))
	}
	return nil
}

// flagError says in plain words what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		if meant := document.Nearest(name, flagNames(c)); meant != "" {
			return Usagef("unknown flag --%s: did you mean --%s?", name, meant)
		}
		return Usagef("unknown flag --%s: %q lists those of %q", name, c.CommandPath()+" --help", c.CommandPath())
	case errors.As(err, &invalid):
		flag := "--" + invalid.GetFlag().Name
		if wants, ok := kinds[invalid.GetFlag().Value.Type()]; ok {
			return Usagef("%s: %q is not %s", flag, invalid.GetValue(), wants)
		}
		return UsageError{fmt.Errorf("%s: %w", flag, errors.Unwrap(invalid))}
	}
	return UsageError{err}
}

// kinds say what the flags of pflag's own types take.
var kinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 on", "float64": "a number", "bool": "true or false",
	"duration": "a time with its unit, such as 500ms, 10s or 2m",
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
