package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

func routerBackendCommand(p *part.Part, e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "backend",
		Short: "List surrogates (backends), add and remove them, and take them out of service and back in",
		Long: `List surrogates (backends), add and remove them, change their weights, and take them out of service and back in, without a reload. Sessions continue.

Changes are kept across a restart, and stand until the file says something else of the surrogate.`,
		Example: `  baton router backend list
  baton router backend add video s9 192.0.2.9:80 --weight 2
  baton router backend drain s1`,
	}
	c.AddCommand(
		p.Show(e, &cobra.Command{
			Use:     "list",
			Short:   "List the surrogates with their state, sessions and idle legs (connections)",
			Example: "  baton router backend list\n  baton router backend list -w",
		}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
			s, err := client.Router(ctx)
			if err != nil {
				return err
			}
			return format.Print(e.Out, s.Pools, func(out io.Writer, wide bool) error { return printBackends(out, &s, wide, time.Now()) })
		}),
		addCommand(p, e), removeCommand(p, e), weightCommand(p, e),
		changeCommand(p, e, &cobra.Command{
			Use:     "drain SURROGATE",
			Short:   "Send a surrogate no new sessions; existing ones continue",
			Example: "  baton router backend drain s1",
		}, named(api.RouterBackendDrain)),
		changeCommand(p, e, &cobra.Command{
			Use:     "undrain SURROGATE",
			Short:   "Send a surrogate new sessions again; one that was to be removed stays",
			Example: "  baton router backend undrain s1",
		}, named(api.RouterBackendUndrain)),
		resetCommand(p, e))
	return c
}

// changeCommand makes a command whose arguments are a change.
func changeCommand(p *part.Part, e cli.Env, c *cobra.Command, change func(args []string) (api.RouterBackendChange, error)) *cobra.Command {
	return p.Ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, args []string) error {
		q, err := change(args)
		if err != nil {
			return err
		}
		r, err := client.RouterBackend(ctx, q)
		if err != nil {
			return err
		}
		return format.Print(e.Out, r, func(out io.Writer, _ bool) error { return printChange(out, &q, &r) })
	})
}

func named(do api.RouterBackendDo) func([]string) (api.RouterBackendChange, error) {
	return func(args []string) (api.RouterBackendChange, error) {
		return api.RouterBackendChange{Do: do, Surrogate: args[0]}, nil
	}
}

func addCommand(p *part.Part, e cli.Env) *cobra.Command {
	weight := 1
	c := changeCommand(p, e, &cobra.Command{
		Use:   "add POOL SURROGATE ADDRESS",
		Short: "Add a surrogate to a pool",
		Long:  "Add a surrogate to a pool. It gets sessions after its first successful check, if the pool has checks.",
		Example: `  baton router backend add video s9 192.0.2.9:80
  baton router backend add video s9 '[2001:db8::9]:80' --weight 2`,
	}, func(args []string) (api.RouterBackendChange, error) {
		q := api.RouterBackendChange{Do: api.RouterBackendAdd, Pool: args[0], Surrogate: args[1], Weight: &weight}
		var err error
		if q.Address, err = netip.ParseAddrPort(args[2]); err != nil {
			return q, cli.Usagef("%q is not ADDRESS:PORT, such as 192.0.2.9:80 or [2001:db8::9]:80", args[2])
		}
		return q, checkWeight(weight)
	})
	c.Flags().IntVar(&weight, "weight", 1, "its `weight`, from 0 to 256; 0: no new sessions")
	return c
}

func removeCommand(p *part.Part, e cli.Env) *cobra.Command {
	now := false
	c := changeCommand(p, e, &cobra.Command{
		Use:   "remove SURROGATE",
		Short: "Remove a surrogate when its sessions have ended",
		Long: `Remove a surrogate. It gets no new sessions, and is gone when those that it has have ended.

With --now it is gone at once, as when a reload removes it: its sessions continue in the kernel until they end, and are counted nowhere.`,
		Example: `  baton router backend remove s1
  baton router backend remove s1 --now`,
	}, func(args []string) (api.RouterBackendChange, error) {
		return api.RouterBackendChange{Do: api.RouterBackendRemove, Surrogate: args[0], Now: now}, nil
	})
	c.Flags().BoolVar(&now, "now", false, "do not wait for its sessions")
	return c
}

func weightCommand(p *part.Part, e cli.Env) *cobra.Command {
	return changeCommand(p, e, &cobra.Command{
		Use:     "weight SURROGATE WEIGHT",
		Short:   "Change a surrogate's weight, for policies weighted and hash; 0: no new sessions",
		Example: "  baton router backend weight s1 3",
	}, func(args []string) (api.RouterBackendChange, error) {
		weight, err := strconv.Atoi(args[1])
		if err != nil {
			return api.RouterBackendChange{}, cli.Usagef("%q is not a weight: a number from 0 to 256", args[1])
		}
		return api.RouterBackendChange{Do: api.RouterBackendWeight, Surrogate: args[0], Weight: &weight}, checkWeight(weight)
	})
}

func checkWeight(weight int) error {
	if weight < 0 || weight > 256 {
		return cli.Usagef("%d is not a weight: a number from 0 to 256", weight)
	}
	return nil
}

func resetCommand(p *part.Part, e cli.Env) *cobra.Command {
	all := false
	return resetFlags(changeCommand(p, e, &cobra.Command{
		Use:   "reset [SURROGATE]",
		Short: "Drop the changes by command of a surrogate, or of all with --all",
		Long:  "Drop the changes by command of a surrogate, or of all: what the file and the sources of discovery say applies again. Surrogates that were added are gone.",
		Example: `  baton router backend reset s1
  baton router backend reset --all`,
	}, func(args []string) (api.RouterBackendChange, error) {
		q := api.RouterBackendChange{Do: api.RouterBackendReset}
		if len(args) > 0 {
			q.Surrogate = args[0]
		}
		if all == (len(args) > 0) {
			return q, cli.Usagef("give a surrogate, or --all: baton router backend reset s1")
		}
		return q, nil
	}), &all)
}

func resetFlags(c *cobra.Command, all *bool) *cobra.Command {
	c.Flags().BoolVar(all, "all", false, "of all surrogates")
	return c
}

// printChange says what a change has done.
func printChange(out io.Writer, q *api.RouterBackendChange, r *api.RouterBackendResult) error {
	name := r.Surrogate
	switch {
	case r.Problem != "":
		fmt.Fprintf(out, "%s is not in a pool: %s\n", name, r.Problem)
	case q.Do == api.RouterBackendAdd:
		fmt.Fprintf(out, "%s is in pool %s, at %s with weight %d\n", name, r.Pool, r.Address, r.Weight)
	case q.Do == api.RouterBackendRemove && r.Present:
		fmt.Fprintf(out, "%s gets no new sessions, and is removed when those that it has (%d) have ended\n", name, r.Sessions)
	case q.Do == api.RouterBackendRemove:
		fmt.Fprintf(out, "%s is removed\n", name)
	case q.Do == api.RouterBackendWeight:
		fmt.Fprintf(out, "%s has weight %d\n", name, r.Weight)
	case q.Do == api.RouterBackendReset && name == "":
		fmt.Fprintln(out, "no surrogate is changed by command")
	case q.Do == api.RouterBackendReset:
		fmt.Fprintf(out, "%s is not changed by command\n", name)
	case r.Draining:
		fmt.Fprintf(out, "%s gets no new sessions; it has %d\n", name, r.Sessions)
	default:
		fmt.Fprintf(out, "%s gets new sessions again; it has %d\n", name, r.Sessions)
	}
	if !r.Saved {
		fmt.Fprintln(out, "a restart forgets this: the configuration has no saved")
	}
	return nil
}

// fromFile is the origin of surrogates that need no mention of it.
const fromFile = "router.yaml"

func hasOrigins(s *api.RouterStatus) bool {
	return slices.ContainsFunc(s.Pools, func(p api.RouterPool) bool {
		return slices.ContainsFunc(p.Surrogates, func(sg api.RouterSurrogate) bool { return sg.Origin != fromFile || len(sg.Changed) > 0 })
	})
}

func surrogateOrigin(sg *api.RouterSurrogate) string {
	if len(sg.Changed) == 0 {
		return sg.Origin
	}
	return sg.Origin + ", by api: " + strings.Join(sg.Changed, ", ")
}

// printSources prints a line for each source of surrogates, and for what is not in force of them.
func printSources(out io.Writer, s *api.RouterStatus, now time.Time) {
	for _, p := range s.Pools {
		for _, d := range p.Discover {
			fmt.Fprintf(out, "pool %s from %s: %s", p.Name, d.Name, cli.Count(d.Surrogates, "surrogate"))
			switch {
			case !d.Success.IsZero():
				fmt.Fprintf(out, ", last success %s ago", cli.Age(now, d.Success))
			case d.Known:
				fmt.Fprint(out, ", as saved before the start")
			default:
				fmt.Fprint(out, ", no success yet")
			}
			failures := uint64(0)
			for _, n := range d.Failures {
				failures += n
			}
			if failures > 0 {
				fmt.Fprintf(out, ", %s", cli.Count(int(failures), "failure"))
			}
			if d.Error != "" {
				fmt.Fprintf(out, ": %s", strings.ReplaceAll(d.Error, "\n", "; "))
			}
			fmt.Fprintln(out)
		}
	}
	for _, c := range s.Changes {
		if c.Gone {
			fmt.Fprintf(out, "surrogate %s is removed by command; baton router backend reset %s brings it back\n", c.Surrogate, c.Surrogate)
		}
	}
	for _, line := range s.LeftOut {
		fmt.Fprintln(out, line)
	}
}
