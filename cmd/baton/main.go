// Command baton is Baton: one binary, a subcommand for each part.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set at build time.
var version = "dev"

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2 // also a configuration that is wrong
)

// usageError is one that the user mends in what was typed or configured.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// env is what a command sees of the world.
type env struct {
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, env{os.Stdout, os.Stderr}, os.Args[1:]))
}

func run(ctx context.Context, e env, args []string) int {
	root := &cobra.Command{
		Use:           "baton",
		Short:         "Hands live TCP sessions to the server that should answer them",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetOut(e.out)
	root.SetErr(e.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(routerCommand(e), relayCommand(e), statusCommand(e), sessionsCommand(e), explainCommand(e), drainCommand(e), forwarderCommand(e),
		anycastCommand(e), balanceCommand(e), purgeCommand(e), getCommand(e), demoCommand(e), experimentCommand(e), labCommand(e), conformanceCommand(e))
	begun := false
	noteBegin(root, &begun)
	err := root.ExecuteContext(ctx)
	var (
		usage usageError
		exit  exitError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if !exit.silent {
			fmt.Fprintln(e.err, "baton:", err)
		}
		return exit.status
	case errors.As(err, &usage), !begun:
		fmt.Fprintln(e.err, "baton:", err)
		return exitUsage
	}
	fmt.Fprintln(e.err, "baton:", err)
	return exitFailure
}

// noteBegin has every command note that it runs: then what was typed is in order. Errors of cobra's own have no type.
func noteBegin(c *cobra.Command, begun *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*begun = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		noteBegin(sub, begun)
	}
}
