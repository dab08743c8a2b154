package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
)

func anycastPlanCommand(p *part, e cli.Env) *cobra.Command {
	return p.show(e, &cobra.Command{
		Use:     "plan",
		Short:   "Show what a running planner proposes to sites, or its map, and what it does next",
		Example: "  baton anycast plan\n  baton anycast plan -o json | jq .next",
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		s, err := client.Anycast(ctx)
		if err != nil {
			return err
		}
		if s.Planner == nil {
			return cli.UsageError{Err: errors.New(s.Name + " is no planner")}
		}
		return format.Print(e.Out, s.Planner, func(out io.Writer, _ bool) error { return printPlanner(out, s.Planner, time.Now()) })
	})
}

// instruct makes a command that gives an instruction. Its first argument is the site, which may be left out when the process is one.
func (p *part) instruct(e cli.Env, c *cobra.Command, instruction func(args []string) api.AnycastInstruction) *cobra.Command {
	return p.ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, args []string) error {
		given := instruction(args)
		s, err := client.AnycastInstruct(ctx, given)
		if err != nil {
			return err
		}
		return format.Print(e.Out, s, func(out io.Writer, _ bool) error {
			if s.Site != nil && (given.Site == "" || given.Site == s.Name) {
				_, err = fmt.Fprintf(out, "%s: level %s: %s\n", s.Name, s.Site.Level, s.Site.Reason)
				return err
			}
			_, err = fmt.Fprintf(out, "%s: the instruction is in force\n", given.Site)
			return err
		})
	})
}

func siteOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func anycastDrainCommand(p *part, e cli.Env) *cobra.Command {
	var withdraw, force bool
	c := p.instruct(e, &cobra.Command{
		Use:   "drain [SITE]",
		Short: "Have a site announce behind all others, until it is undrained",
		Long: `Have a site announce behind all others (the last level of its ladder before withdrawal), until it is undrained. With
--withdraw it is withdrawn once site.drain has passed, for maintenance. The instruction outlives the process where site.state names a file.`,
		Example: `  baton anycast drain
  baton anycast drain london --withdraw   # at the planner`,
	}, func(args []string) api.AnycastInstruction {
		o := api.AnycastInstruction{Kind: "drain", Site: siteOf(args), Force: force}
		if withdraw {
			o.Kind = "maintenance"
		}
		return o
	})
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw it when it has drained")
	c.Flags().BoolVar(&force, "force", false, "also when no other site is known to be up")
	return c
}

func anycastUndrainCommand(p *part, e cli.Env) *cobra.Command {
	return p.instruct(e, &cobra.Command{
		Use:     "undrain [SITE]",
		Short:   "Lift the instruction that a site has, whichever it is",
		Example: "  baton anycast undrain",
	}, func(args []string) api.AnycastInstruction {
		return api.AnycastInstruction{Kind: "none", Site: siteOf(args)}
	})
}

func anycastLevelCommand(p *part, e cli.Env) *cobra.Command {
	var force bool
	c := p.instruct(e, &cobra.Command{
		Use:   "level [SITE] LEVEL",
		Short: "Keep a site at a level of its ladder, whatever its load, until it is undrained",
		Long: `Keep a site at a level of its ladder, whatever its load and the planner's proposal, until it is undrained. A site that dies withdraws
nevertheless.`,
		Example: `  baton anycast level prepend-1
  baton anycast level london med   # at the planner`,
	}, func(args []string) api.AnycastInstruction {
		return api.AnycastInstruction{Kind: "level", Site: siteOf(args[:len(args)-1]), Level: args[len(args)-1], Force: force}
	})
	c.Flags().BoolVar(&force, "force", false, "also when no other site is known to be up")
	return c
}
