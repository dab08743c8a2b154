package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// Watch is how often a result is printed again; 0: once. It is the flag -w, --watch.
type Watch struct{ every time.Duration }

// Flag adds the flag to a command.
func (w *Watch) Flag(c *cobra.Command) {
	c.Flags().DurationVarP(&w.every, "watch", "w", 0, "print again every `time`, until interrupted")
	c.Flags().Lookup("watch").NoOptDefVal = "2s"
}

// Run calls show once, or again and again until ctx ends, with an empty line between.
func (w *Watch) Run(ctx context.Context, out io.Writer, show func(context.Context) error) error {
	for {
		if err := show(ctx); err != nil || w.every <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.every):
			fmt.Fprintln(out)
		}
	}
}
