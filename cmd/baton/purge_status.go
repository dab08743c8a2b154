package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/purge/config"
)

// purgeControl are the flags of every command that asks a running purge.
type purgeControl struct {
	config string
	control
}

func (o *purgeControl) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.config, "config", "", "the purge's configuration `file`, which tells the control socket")
	c.Flags().StringVar(&o.socket, "control", "/run/baton/purge.sock", "the purge's control `socket`")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("config", "control")
}

func (o *purgeControl) client() (*api.Client, error) {
	if o.config == "" {
		return api.NewClient(o.socket), nil
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		return nil, usageError{fmt.Errorf("--config: %w", err)}
	}
	cfg, err := config.Parse(o.config, text)
	if err != nil {
		return nil, usageError{err}
	}
	return api.NewClient(cfg.Control), nil
}

func purgeStatusCommand(e env) *cobra.Command {
	var o purgeControl
	c := &cobra.Command{
		Use:     "status [--config FILE]",
		Short:   "Show a running purge: its policies, and what became of silent connections",
		Example: "  baton purge status\n  baton purge status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			defer client.Close()
			s, err := client.Purge(cmd.Context())
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(e, s)
			}
			return printPurge(e.out, &s, time.Now())
		},
	}
	o.flags(c)
	return c
}

func printPurge(out io.Writer, s *api.PurgeStatus, now time.Time) error {
	fmt.Fprintf(out, "baton %s, pid %d, up %s, %d of %d connections wait, %d resets beside the kernel's\n",
		s.Version, s.PID, now.Sub(s.Started).Round(time.Second), s.Waiting.Used, s.Waiting.Limit, s.Resets)
	for _, f := range s.Features {
		if !f.Used {
			fmt.Fprintf(out, "without %s: %s\n", f.Name, f.Reason)
		}
	}
	for _, g := range s.CgroupsMissing {
		fmt.Fprintf(out, "there is no control group %s now\n", g)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPOLICY\tPORTS\tRETRIES\tWAIT\tSILENCE\tMARKED\tENDED\tHEARD\tGONE\tSPARED\tFAILED\tSTATE")
	for _, p := range s.Policies {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d%%\t%v to %v\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.Name, dash(strings.Join(p.Ports, ", ")), p.MaxRetries,
			p.Wait, p.Floor, p.Ceiling, p.Marked, p.Ended, p.Heard, p.Gone, p.Spared, p.Failed, policyState(&p))
	}
	counted(w, "VERDICT", "TIMES", s.Verdicts)
	return w.Flush()
}

func policyState(p *api.PurgePolicy) string {
	switch {
	case !p.InForce:
		return "gone"
	case p.DryRun:
		return "dry run"
	}
	return "in force"
}

func purgeReloadCommand(e env) *cobra.Command {
	var o purgeControl
	c := &cobra.Command{
		Use:   "reload [--config FILE]",
		Short: "Have a running purge read its configuration again",
		Long: `Have a running purge read its configuration again, as SIGHUP does. A configuration that cannot be put in force changes
nothing.`,
		Example: "  baton purge reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			defer client.Close()
			result, err := client.Reload(cmd.Context())
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(e, result)
			}
			fmt.Fprintf(e.out, "%s is in force\n", result.Config)
			return nil
		},
	}
	o.flags(c)
	return c
}
