package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/relay/config"
)

// relaySockets are where relays listen for commands: what a configuration that says nothing gives, and what the systemd unit asks for.
var relaySockets = []string{"/run/baton/relay.sock", "/run/baton-relay/relay.sock"}

// relayControl are the flags of every command that asks a running relay.
type relayControl struct {
	config string
	control
}

func (o *relayControl) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.config, "config", "", "the relay's configuration `file`")
	c.Flags().StringVar(&o.socket, "control", "", "the relay's control `socket` (default: its configuration's, or the only one there is)")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("config", "control")
}

// find returns the socket to ask at: the one that is named, or the only one that a relay listens on.
func (o *relayControl) find(usual []string) (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return "", usageError{fmt.Errorf("--config: %w", err)}
		}
		cfg, err := config.Parse(o.config, text) // credentials are no concern of this command
		if err != nil {
			return "", usageError{err}
		}
		return cfg.Listen.Control, nil
	}
	return findSocket(usual, strings.Join(usual, " or "), "no relay", "relays are")
}

// askRelay makes a command that asks a running relay.
func askRelay(c *cobra.Command, o *relayControl, ask func(ctx context.Context, client *api.Client) error) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		socket, err := o.find(relaySockets)
		if err != nil {
			return err
		}
		client := api.NewClient(socket)
		defer client.Close()
		err = ask(cmd.Context(), client)
		if errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrConflict) {
			return usageError{err}
		}
		return err
	}
	o.flags(c)
	return c
}

func relayFlowsCommand(e env) *cobra.Command {
	var o relayControl
	return askRelay(&cobra.Command{
		Use:   "flows [--config FILE]",
		Short: "List the flows of a running relay",
		Long: `List the flows of a running relay. In JSON there is one on each line, with an id that is the same on all relays of the
flow's way.`,
		Example: `  baton relay flows
  baton relay flows --json | jq -c 'select(.entry == "web" and .idle_ns > 60e9)'`,
	}, &o, func(ctx context.Context, client *api.Client) error {
		lines := json.NewEncoder(e.out)
		w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
		if !o.json {
			fmt.Fprintln(w, "CLIENT\tSERVER\tCAME BY\tGOES BY\tSTAGE\tAGE\tIDLE\tFROM CLIENT\tFROM SERVER\t")
		}
		for f, err := range client.Flows(ctx) {
			if err != nil {
				return err
			}
			if o.json {
				if err := lines.Encode(f); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", endpoint(f.Client.IsValid(), f.Client), endpoint(f.Server.IsValid(), f.Server),
				cameBy(&f), goesBy(f.Via), stage(&f), time.Since(f.Since).Round(time.Millisecond), f.IdleFor.Round(time.Millisecond),
				f.FromClient, f.FromServer)
		}
		return w.Flush()
	})
}

func endpoint(known bool, address fmt.Stringer) string {
	if !known {
		return "-"
	}
	return address.String()
}

func cameBy(f *api.Flow) string {
	if f.Entry != "" {
		return f.Entry
	}
	return strings.Join(f.Passed, " ") + " (trunk)"
}

func goesBy(via []string) string {
	if len(via) == 0 {
		return "-"
	}
	return strings.Join(via, " ")
}

func stage(f *api.Flow) string {
	if f.Probe {
		return f.Stage + " (probe)"
	}
	return f.Stage
}

func relayDrainCommand(e env) *cobra.Command {
	var (
		o    relayControl
		wait bool
	)
	c := askRelay(&cobra.Command{
		Use:   "drain [--config FILE]",
		Short: "Have a running relay take no new flows, and end with the last one",
		Long: `Have a running relay take no new flows, and end with the last one, as SIGTERM does: what is left after timeouts.stop is reset.
There is no way back but another start.`,
		Example: `  baton relay drain
  baton relay drain --wait   # returns when the relay has ended`,
	}, &o, func(ctx context.Context, client *api.Client) error {
		d, err := client.RelayDrain(ctx)
		if err != nil {
			return err
		}
		if o.json {
			err = printJSON(e, d)
		} else {
			_, err = fmt.Fprintf(e.out, "no new flows are taken; %d are left, and reset in %s\n", d.Flows, d.AtMost)
		}
		if err != nil || !wait {
			return err
		}
		return relayEnded(ctx, client)
	})
	c.Flags().BoolVar(&wait, "wait", false, "return when the relay has ended")
	return c
}

// relayEnded returns when nobody listens on the control socket any more.
func relayEnded(ctx context.Context, client *api.Client) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var ended *api.NotRunningError
		if _, err := client.Relay(ctx); errors.As(err, &ended) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func relayReloadCommand(e env) *cobra.Command {
	var o relayControl
	return askRelay(&cobra.Command{
		Use:   "reload [--config FILE]",
		Short: "Have a running relay read its configuration again",
		Long: `Have a running relay read its configuration again, as SIGHUP does, and tell what has changed. A configuration that cannot be put
in force changes nothing. Flows go on.`,
		Example: "  baton relay reload",
	}, &o, func(ctx context.Context, client *api.Client) error {
		result, err := client.Reload(ctx)
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(e, result)
		}
		fmt.Fprintf(e.out, "%s is in force\n", result.Config)
		for _, line := range result.Changed {
			fmt.Fprintln(e.out, line)
		}
		return nil
	})
}
