package part

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
)

// Asked is the daemon that a command queries: the flags --config and --control.
type Asked struct {
	Part    *Part
	Config  string // file
	control string
	chosen  bool // --config was given
}

// Flags adds --config and --control.
func (a *Asked) Flags(c *cobra.Command) {
	a.Part.configFlag(c, &a.Config)
	c.Flags().StringVar(&a.control, "control", "", "control `socket` (default: that of the configuration, or of the only running daemon)")
	_ = c.MarkFlagFilename("control", "sock")
}

// Choose notes which of the flags were given.
func (a *Asked) Choose(c *cobra.Command) error {
	if a.chosen = c.Flags().Changed("config"); a.chosen && a.control != "" {
		return cli.Usagef("--config and --control both select the daemon: give only one of them")
	}
	return nil
}

// Ask queries the daemon. An answer that refuses the request is a usage error.
func (a *Asked) Ask(ctx context.Context, question func(context.Context, *api.Client) error) error {
	socket, err := a.socket(a.Part.Usual())
	if err != nil {
		return err
	}
	client := api.NewClient(socket)
	defer client.Close()
	err = question(ctx, client)
	var none *api.NotRunningError
	switch {
	case errors.As(err, &none):
		return a.notRunning(none.Path)
	case errors.Is(err, api.ErrInvalid), errors.Is(err, api.ErrNotFound), errors.Is(err, api.ErrConflict):
		return cli.Usagef("%s", reason(err))
	}
	return err
}

// reason is what a daemon says of a request that it refuses, without the kind of refusal before it.
func reason(err error) string {
	why := err.Error()
	for _, kind := range []error{api.ErrConflict, api.ErrInvalid} {
		why = strings.TrimPrefix(why, kind.Error()+": ")
	}
	return why
}

// socket is the control socket to use: that of the flag, that of the configuration, or the only one among the usual ones with a daemon.
func (a *Asked) socket(usual []string) (string, error) {
	if a.control != "" {
		return a.control, nil
	}
	if a.chosen {
		return a.Part.SocketOf(a.Config)
	}
	places := a.Part.Sockets
	if its, err := a.Part.SocketOf(a.Config); err == nil {
		if listens(its) {
			return its, nil
		}
		places = append([]string{its}, slices.DeleteFunc(slices.Clone(places), func(usual string) bool { return usual == its })...)
	}
	live := slices.DeleteFunc(slices.Clone(usual), func(path string) bool { return !listens(path) })
	switch len(live) {
	case 0:
		return "", a.notRunning(strings.Join(places, " or "))
	case 1:
		return live[0], nil
	}
	return "", cli.Usagef("%d daemons run here: choose one with -c FILE, or with --control and one of %s", len(live), strings.Join(live, ", "))
}

func (a *Asked) notRunning(where string) error {
	return fmt.Errorf("no %s is running (nothing listens on %s); to start it: systemctl start baton-%[3]s, or %[5]s %[3]s run -c %[4]s",
		a.Part.Noun, where, a.Part.Name, a.Config, a.Part.program())
}

// socketOf is the control socket in a configuration file.
func (p *Part) SocketOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", cli.Usagef("--config: %w", err)
	}
	socket, err := p.Control(file, text)
	if err != nil {
		return "", cli.UsageError{Err: err}
	}
	return socket, nil
}

// usual are the control sockets that exist at the usual places.
func (p *Part) Usual() []string {
	var all []string
	for _, pattern := range p.Sockets {
		found, _ := filepath.Glob(pattern) // the pattern is right
		all = append(all, found...)
	}
	return all
}

// listens tells whether a daemon listens on a socket, even if this user may not connect.
func listens(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return true
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOTSOCK)
}
