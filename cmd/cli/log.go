package cli

import (
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// Log is how a daemon logs: the flags --log-level and --log-format.
type Log struct{ level, format Choice }

// Flags adds them to a command.
func (l *Log) Flags(c *cobra.Command) {
	l.level.Flag(c, "log-level", "least `level` of messages: debug, info, warn, error", "info", "debug", "info", "warn", "error")
	l.format.Flag(c, "log-format", "`format` of messages: text or json", "text", "text", "json")
}

// Failed has the error that ends a daemon be a message, one for each line, where messages are JSON: whoever parses the log can parse all of it.
func (l *Log) Failed(log *slog.Logger, err error) error {
	if err == nil || !l.json() {
		return err
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		log.Error(line)
	}
	return ExitError{Err: err, Status: statusOf(err), Silent: true}
}

func (l *Log) json() bool { return l.format.Is == "json" }

// Logger makes the log. Before the flags are parsed it has their defaults.
func (l *Log) Logger(out io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(l.level.Is)) // one of the four
	o := &slog.HandlerOptions{Level: level}
	if l.json() {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
