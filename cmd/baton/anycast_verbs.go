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
	"baton/cmd/cli/part"
)

func anycastPlanCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Show(e, &cobra.Command{
		Use:     "plan",
		Short:   "Show a running planner's proposals or map, and its next step",
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

// instruct makes a command that gives an instruction. The first argument is the site; it may be omitted if the process is a site.
func instruct(p *part.Part, e cli.Env, c *cobra.Command, instruction func(args []string) api.AnycastInstruction) *cobra.Command {
	return p.Ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, args []string) error {
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

func anycastDrainCommand(p *part.Part, e cli.Env) *cobra.Command {
	var withdraw, force bool
	c := instruct(p, e, &cobra.Command{
		Use:   "drain [SITE]",
		Short: "Make a site less attractive than all others, until it is undrained",
		Long: `Make a site less attractive than all others (the last level of its ladder before withdrawal), until it is undrained. With
--withdraw it withdraws its routes after site.drain, for maintenance. The instruction outlives the process if site.state names a file.`,
		Example: `  baton anycast drain
  baton anycast drain london --withdraw   # at the planner`,
	}, func(args []string) api.AnycastInstruction {
		o := api.AnycastInstruction{Kind: "drain", Site: siteOf(args), Force: force}
		if withdraw {
			o.Kind = "maintenance"
		}
		return o
	})
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw its routes after site.drain")
	c.Flags().BoolVar(&force, "force", false, "even if no other site is known to be up")
	return c
}

func anycastUndrainCommand(p *part.Part, e cli.Env) *cobra.Command {
	return instruct(p, e, &cobra.Command{
		Use:     "undrain [SITE]",
		Short:   "Lift a site's instruction of any kind",
		Example: "  baton anycast undrain",
	}, func(args []string) api.AnycastInstruction {
		return api.AnycastInstruction{Kind: "none", Site: siteOf(args)}
	})
}

func anycastLevelCommand(p *part.Part, e cli.Env) *cobra.Command {
	var force bool
	c := instruct(p, e, &cobra.Command{
		Use:   "level [SITE] LEVEL",
		Short: "Keep a site at a level of its ladder, regardless of load, until it is undrained",
		Long: `Keep a site at a level of its ladder, regardless of load and the planner's proposals, until it is undrained. A dead site still
withdraws its routes.`,
		Example: `  baton anycast level prepend-1
  baton anycast level london med   # at the planner`,
	}, func(args []string) api.AnycastInstruction {
		return api.AnycastInstruction{Kind: "level", Site: siteOf(args[:len(args)-1]), Level: args[len(args)-1], Force: force}
	})
	c.Flags().BoolVar(&force, "force", false, "even if no other site is known to be up")
	return c
}
