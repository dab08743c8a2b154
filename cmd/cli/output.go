package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// Format is how a result is printed: a flag's value.
type Format string

// The formats. Wide is a table with columns that are seldom asked for.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

var formats = []string{string(Table), string(Wide), string(JSON), string(YAML)}

// Set takes one of the formats.
func (f *Format) Set(text string) error {
	if err := oneOf(text, formats); err != nil {
		return err
	}
	*f = Format(text)
	return nil
}

func (f *Format) String() string { return string(*f) }

// Type is for the help.
func (f *Format) Type() string { return "format" }

// Flag adds the flag -o, --output to a command.
func (f *Format) Flag(c *cobra.Command) {
	*f = Table
	c.Flags().VarP(f, "output", "o", "print as `table|wide|json|yaml`")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// Print prints a result: data as JSON or YAML, or what table makes of it.
func (f *Format) Print(out io.Writer, data any, table func(out io.Writer, wide bool) error) error {
	switch *f {
	case JSON:
		return PrintJSON(out, data)
	case YAML:
		return printYAML(out, data)
	}
	return table(out, *f == Wide)
}

// Text tells whether people are to read the result.
func (f *Format) Text() bool { return *f == Table || *f == Wide }

// Item prints one of many results, as JSON on a line of its own or as a document of YAML.
func (f *Format) Item(out io.Writer, data any) error {
	if *f == JSON {
		return json.NewEncoder(out).Encode(data)
	}
	return printYAML(out, data)
}

// PrintJSON prints a result as JSON, indented.
func PrintJSON(out io.Writer, data any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(data)
}

// printYAML prints a document with the keys of the JSON.
func printYAML(out io.Writer, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		return err
	}
	_, err = out.Write(slices.Concat([]byte("---\n"), bytes.TrimSpace(text), []byte("\n")))
	return err
}
