package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Log is how a daemon logs: the flags --log-level and --log-format.
type Log struct{ level, format choice }

// Flags adds them to a command.
func (l *Log) Flags(c *cobra.Command) {
	l.level = choice{"info", []string{"debug", "info", "warn", "error"}}
	l.format = choice{"text", []string{"text", "json"}}
	c.Flags().Var(&l.level, "log-level", "least `level` of messages: "+strings.Join(l.level.of, ", "))
	c.Flags().Var(&l.format, "log-format", "`format` of messages: text or json")
}

// Logger makes the log. Before the flags are parsed it has their defaults.
func (l *Log) Logger(out io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(l.level.is)) // one of the four
	o := &slog.HandlerOptions{Level: level}
	if l.format.is == "json" {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

// choice is the value of a flag that is one of some words.
type choice struct {
	is string
	of []string
}

func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(c.of, ", "))
	}
	c.is = text
	return nil
}

func (c *choice) String() string { return c.is }
func (c *choice) Type() string   { return "word" }
