package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"baton/anycast/config"
	"baton/api"
)

// anycastSockets are where sites and planners listen for commands: what a configuration that says nothing gives, and what the systemd
// unit asks for.
var anycastSockets = []string{"/run/baton/anycast.sock", "/run/baton-anycast/anycast.sock"}

// anycastControl are the flags of every command that asks a running site or planner.
type anycastControl struct {
	config string
	control
}

func (o *anycastControl) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.config, "config", "", "the configuration `file` of the site or planner")
	c.Flags().StringVar(&o.socket, "control", "", "its control `socket` (default: its configuration's, or the only one there is)")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("config", "control")
}

// find returns the socket to ask at: the one that is named, or the only one that a site or planner listens on.
func (o *anycastControl) find(usual []string) (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return "", usageError{fmt.Errorf("--config: %w", err)}
		}
		cfg, err := config.Parse(o.config, text) // passwords are no concern of this command
		if err != nil {
			return "", usageError{err}
		}
		return cfg.Listen.Control, nil
	}
	return findSocket(usual, strings.Join(usual, " or "), "nobody", "are")
}

// ask asks a running site or planner.
func (o *anycastControl) ask(ctx context.Context, question func(ctx context.Context, client *api.Client) error) error {
	socket, err := o.find(anycastSockets)
	if err != nil {
		return err
	}
	client := api.NewClient(socket)
	defer client.Close()
	err = question(ctx, client)
	if errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrNotFound) {
		return usageError{err}
	}
	return err
}

// order makes a command that gives an order. Its first argument is the site, which may be left out when the process is one.
func (o *anycastControl) order(e env, c *cobra.Command, order func(args []string) api.AnycastOrder) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return o.ask(cmd.Context(), func(ctx context.Context, client *api.Client) error {
			given := order(args)
			s, err := client.AnycastOrder(ctx, given)
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(e, s)
			}
			if s.Site != nil && (given.Site == "" || given.Site == s.Name) {
				_, err = fmt.Fprintf(e.out, "%s: level %s: %s\n", s.Name, s.Site.Level, s.Site.Reason)
				return err
			}
			_, err = fmt.Fprintf(e.out, "%s: the order stands\n", given.Site)
			return err
		})
	}
	o.flags(c)
	return c
}

func siteOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func anycastDrainCommand(e env) *cobra.Command {
	var (
		o               anycastControl
		withdraw, force bool
	)
	c := o.order(e, &cobra.Command{
		Use:   "drain [SITE]",
		Short: "Have a site announce behind all others, until it is undrained",
		Long: `Have a site announce behind all others (the last level of its ladder before withdrawal), until it is undrained. With
--withdraw it is withdrawn once site.drain has passed, for maintenance. The order outlives the process where site.state names a file.`,
		Example: `  baton anycast drain
  baton anycast drain london --withdraw   # at the planner`,
		Args: cobra.MaximumNArgs(1),
	}, func(args []string) api.AnycastOrder {
		order := api.AnycastOrder{Order: "drain", Site: siteOf(args), Force: force}
		if withdraw {
			order.Order = "maintenance"
		}
		return order
	})
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw it when it has drained")
	c.Flags().BoolVar(&force, "force", false, "also when no other site is known to be up")
	return c
}

func anycastUndrainCommand(e env) *cobra.Command {
	var o anycastControl
	return o.order(e, &cobra.Command{
		Use:     "undrain [SITE]",
		Short:   "Lift the order that a site has, whichever it is",
		Example: "  baton anycast undrain",
		Args:    cobra.MaximumNArgs(1),
	}, func(args []string) api.AnycastOrder { return api.AnycastOrder{Order: "none", Site: siteOf(args)} })
}

func anycastLevelCommand(e env) *cobra.Command {
	var (
		o     anycastControl
		force bool
	)
	c := o.order(e, &cobra.Command{
		Use:   "level [SITE] LEVEL",
		Short: "Keep a site at a level of its ladder, whatever its load, until it is undrained",
		Long: `Keep a site at a level of its ladder, whatever its load and the planner's wish, until it is undrained. A site that dies withdraws
nevertheless.`,
		Example: `  baton anycast level prepend-1
  baton anycast level london med   # at the planner`,
		Args: cobra.RangeArgs(1, 2),
	}, func(args []string) api.AnycastOrder {
		return api.AnycastOrder{Order: "level", Site: siteOf(args[:len(args)-1]), Level: args[len(args)-1], Force: force}
	})
	c.Flags().BoolVar(&force, "force", false, "also when no other site is known to be up")
	return c
}

func anycastReloadCommand(e env) *cobra.Command {
	var o anycastControl
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have a running site or planner read its configuration again",
		Long: `Have a running site or planner read its configuration again, as SIGHUP does, and tell what has changed. A configuration that
cannot be put in force changes nothing. Sessions that have not changed go on.`,
		Example: "  baton anycast reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.ask(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				result, err := client.Reload(ctx)
				if errors.Is(err, api.ErrConflict) {
					return usageError{err}
				}
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
		},
	}
	o.flags(c)
	return c
}
