// Package cli is what the commands of Baton's programs have in common: one way to be wrong, to print a result, to log. A tree of cobra's commands
// that [Run] executes gets its rules from here: what Use names is required, every group refuses what it does not know, and flags say in plain
// words what they take.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses of all commands. A command that does another program's work may have that program's (see [ExitError]).
const (
	Failure = 1 // it failed
	Usage   = 2 // what was typed, or a configuration, is wrong
)

// Env is what a command sees of the world.
type Env struct {
	Out, Err io.Writer
}

// UsageError is one that the user mends in what was typed or configured: exit status 2.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ExitError is an error with an exit status of its own.
type ExitError struct {
	Err    error
	Status int
	Silent bool // it is not printed
}

func (e ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e ExitError) Unwrap() error { return e.Err }

// Run executes the command of root that args name, prints why it failed, and returns the exit status.
func Run(ctx context.Context, e Env, root *cobra.Command, args []string) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs(args)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	Prepare(root, args...)
	err := misled(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return 0
	}
	var exit ExitError
	if !errors.As(err, &exit) || !exit.Silent {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(e.Err, "%s: %s\n", root.Name(), line)
		}
	}
	return statusOf(err)
}

// Prepare adds the commands that all programs have to a tree, and gives it the rules of this package.
func Prepare(root *cobra.Command, args ...string) {
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	prepare(root)
}

func statusOf(err error) int {
	var (
		usage UsageError
		exit  ExitError
	)
	switch {
	case errors.As(err, &exit):
		return exit.Status
	case errors.As(err, &usage):
		return Usage
	}
	return Failure
}
