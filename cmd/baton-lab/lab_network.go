package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/lab/emulator"
	"baton/lab/keeper"
	"baton/lab/topology"
)

// asking runs f with a client of the chosen lab.
func asking(name string, f func(c *keeper.Client) error) error {
	r, err := keeper.Find(name)
	if err != nil {
		return err
	}
	c := keeper.NewClient(r)
	defer c.Close()
	return f(c)
}

func labShowCommand(e cli.Env) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show a lab: hosts, links with their packet counters, processes",
		Example: "  baton-lab lab show\n  baton-lab lab show --json | jq '.link_status[] | select(.name == \"client-router\")'",
	}
	name := labFlag(c)
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	c.RunE = rooted(func(cmd *cobra.Command, _ []string) error {
		return asking(*name, func(k *keeper.Client) error {
			s, err := k.Status(cmd.Context())
			if err != nil {
				return err
			}
			if json {
				return cli.PrintJSON(e.Out, s)
			}
			return showLab(e.Out, s)
		})
	})
	return c
}

func showLab(out io.Writer, s *keeper.Status) error {
	t := s.Topology
	fmt.Fprintf(out, "lab %s, up for %s, %s, keeper %d\n\n", s.Name, time.Since(s.Started).Round(time.Second), size(t), s.PID)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tINTERFACE\tADDRESSES\t")
	names := make([]string, 0, len(s.Hosts))
	for _, h := range t.Hosts {
		if len(h.Addresses) > 0 {
			fmt.Fprintf(w, "%s\tlo\t%s\t\n", h.Name, joined(h.Addresses))
		}
		names = append(names, h.Name)
	}
	for _, b := range t.Bridges {
		names = append(names, b.Name)
	}
	for _, b := range t.Switches {
		names = append(names, b.Name)
	}
	for _, name := range names {
		for _, end := range t.At(name) {
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", name, end.Interface, joined(end.Addresses))
		}
	}
	if len(t.Links) > 0 {
		fmt.Fprintln(w, "\nLINK\tFROM\tTO\tDOES\tPACKETS\tBYTES\tLOST\tDROPPED\tOTHER\t")
	}
	for i, k := range t.Links {
		status := s.Links[i]
		for _, d := range []struct {
			from, to string
			shape    emulator.Shape
			counts   *emulator.Counts
		}{{k.A.Host, k.B.Host, k.AToB, status.AToB}, {k.B.Host, k.A.Host, k.BToA, status.BToA}} {
			does := topology.Describe(d.shape)
			if status.Down {
				does = strings.TrimSpace("down " + does)
			}
			if does == "" {
				does = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t", k.Name, d.from, d.to, does)
			if c := d.counts; c != nil {
				fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t\n", c.Packets, c.Bytes, c.Lost, c.Dropped, others(c))
			} else {
				fmt.Fprintln(w, "-\t-\t-\t-\t-\t")
			}
		}
	}
	if len(s.Processes) > 0 {
		fmt.Fprintln(w, "\nPROCESS\tHOST\tPID\tSTATE\t")
	}
	for _, p := range s.Processes {
		state := "runs"
		switch {
		case p.Exited && p.Code < 0:
			state = "ended by a signal"
		case p.Exited:
			state = fmt.Sprintf("ended with %d", p.Code)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t\n", p.Name, p.Host, p.PID, state)
	}
	return w.Flush()
}

func joined[S fmt.Stringer](all []S) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = s.String()
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

// others are the counts that are usually zero.
func others(c *emulator.Counts) string {
	var words []string
	for _, n := range []struct {
		name  string
		value int64
	}{{"duplicated", c.Duplicated}, {"corrupted", c.Corrupted}, {"held", c.Held}, {"cut", c.Cut}, {"overrun", c.Overrun}, {"late", c.Late}} {
		if n.value > 0 {
			words = append(words, fmt.Sprintf("%d %s", n.value, n.name))
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func labExecCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "exec HOST COMMAND [ARGUMENT]...",
		Short: "Run a command on a host of a lab",
		Long: `Run a command on a host of a lab: in its network, with its name, /etc/hosts and /etc/resolv.conf. Terminal, signals and exit
status are those of the command. Flags of exec go before HOST.`,
		Example: `  baton-lab lab exec client ping -c 3 server
  baton-lab lab exec client bash
  baton-lab lab exec --lab demo server ss -tnp`,
	}
	c.Flags().SetInterspersed(false)
	name := labFlag(c)
	c.RunE = rooted(func(_ *cobra.Command, args []string) error {
		r, err := keeper.Find(*name)
		if err != nil {
			return err
		}
		return keeper.Exec(r, args[0], args[1:])
	})
	return c
}

func labLogsCommand(e cli.Env) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:     "logs HOST [PROCESS]",
		Short:   "Print the output of a host's processes",
		Example: "  baton-lab lab logs server\n  baton-lab lab logs server web --follow",
	}
	name := labFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log until Ctrl-C")
	c.RunE = rooted(func(cmd *cobra.Command, args []string) error {
		r, err := keeper.Find(*name)
		if err != nil {
			return err
		}
		logs, err := r.Logs(args[0], strings.Join(args[1:], ""))
		if err != nil {
			return err
		}
		if follow && len(logs) != 1 {
			return cli.Usagef("host %s has %d processes: name the one to follow", args[0], len(logs))
		}
		for _, p := range logs {
			if follow {
				return keeper.FollowLog(cmd.Context(), e.Out, r, p)
			}
			if len(logs) > 1 {
				fmt.Fprintf(e.Out, "==> %s <==\n", p.Name)
			}
			if err := keeper.CopyLog(e.Out, p); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

func labSetCommand(e cli.Env) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "set LINK",
		Short: "Change the settings of a running link: rate, delay, loss and others",
		Long: `Change the settings of a running link. Settings that are not given stay; 0 switches one off. Without --from
both directions change. Only links with a shape or emulated: true in the topology can be changed.`,
		Example: `  baton-lab lab set client-router --delay 40ms --loss 1%
  baton-lab lab set client-router --from router --rate 2mbit --queue-packets 50
  baton-lab lab set client-router --loss 0`,
	}
	name := labFlag(c)
	f := c.Flags()
	f.StringVar(&from, "from", "", "change only the direction from this `host`")
	values := make(map[string]*string)
	for _, k := range topology.ShapeKeys {
		values[k.Name] = f.String(strings.ReplaceAll(k.Name, ".", "-"), "", k.Means)
	}
	c.RunE = rooted(func(cmd *cobra.Command, args []string) error {
		change := keeper.Change{Link: args[0], From: from, Settings: make(map[string]string)}
		for _, k := range topology.ShapeKeys {
			if flag := strings.ReplaceAll(k.Name, ".", "-"); f.Changed(flag) {
				change.Settings[k.Name] = *values[k.Name]
				if err := topology.SetShape(&emulator.Shape{}, k.Name, *values[k.Name]); err != nil {
					return cli.Usagef("--%s", strings.Replace(err.Error(), k.Name, flag, 1))
				}
			}
		}
		if len(change.Settings) == 0 {
			return cli.UsageError{Err: errors.New("nothing to set: give --delay, --loss, --rate, …")}
		}
		return asking(*name, func(k *keeper.Client) error {
			link, err := k.Set(cmd.Context(), change)
			if err != nil {
				return err
			}
			for _, d := range []struct {
				from, to string
				shape    emulator.Shape
			}{{link.A.Host, link.B.Host, link.AToB}, {link.B.Host, link.A.Host, link.BToA}} {
				does := topology.Describe(d.shape)
				if does == "" {
					does = "no limit, delay or loss"
				}
				fmt.Fprintf(e.Out, "%s to %s: %s\n", d.from, d.to, does)
			}
			return nil
		})
	})
	return c
}

func labLinkCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "link LINK STATE",
		Short: "Unplug the cable of a link, or plug it in again",
		Long: `Unplug the cable of a link, or plug it in again. Without it both ends have no carrier, and packets in flight are lost. Addresses and
routes stay. Only links with a shape or emulated: true in the topology have a cable.`,
		Example: "  baton-lab lab link client-router down\n  baton-lab lab link client-router up",
	}
	name := labFlag(c)
	c.RunE = rooted(func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"up", "down"}, args[1]) {
			return cli.Usagef("a link goes up or down, not %q", args[1])
		}
		return asking(*name, func(k *keeper.Client) error {
			if err := k.Carrier(cmd.Context(), args[0], args[1] == "up"); err != nil {
				return err
			}
			fmt.Fprintf(e.Out, "link %s is %s\n", args[0], args[1])
			return nil
		})
	})
	return c
}

func labCaptureCommand(e cli.Env) *cobra.Command {
	var (
		file    string
		packets int
		length  time.Duration
	)
	c := &cobra.Command{
		Use:   "capture HOST [INTERFACE]",
		Short: "Capture the packets of an interface in a file",
		Long: `Capture the packets of an interface of a host, bridge or switch in a file, until Ctrl-C. INTERFACE may be omitted if
there is only one.`,
		Example: `  baton-lab lab capture client --write client.pcap
  baton-lab lab capture router eth1 --write - | tcpdump -n -r -
  baton-lab lab capture client --write client.pcap --for 10s --count 1000`,
	}
	name := labFlag(c)
	f := c.Flags()
	f.StringVarP(&file, "write", "w", "", "capture `file`, - for standard output (required)")
	f.IntVar(&packets, "count", 0, "end after this many `packets`")
	f.DurationVar(&length, "for", 0, "end after this `time`")
	_ = c.MarkFlagRequired("write")
	c.RunE = rooted(func(cmd *cobra.Command, args []string) (err error) {
		ctx := cmd.Context()
		if length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, length)
			defer cancel()
		}
		return asking(*name, func(k *keeper.Client) error {
			to := &captureFile{name: file, out: e.Out}
			err := k.Capture(ctx, to, args[0], strings.Join(args[1:], ""), packets)
			return errors.Join(err, to.close())
		})
	})
	return c
}

// captureFile is created with the first byte, so that an unknown host does not truncate an existing file.
type captureFile struct {
	name string
	out  io.Writer // for the name "-"
	file *os.File
}

func (c *captureFile) Write(b []byte) (n int, err error) {
	if c.name == "-" {
		return c.out.Write(b)
	}
	if c.file == nil {
		if c.file, err = os.Create(c.name); err != nil {
			return 0, err
		}
	}
	return c.file.Write(b)
}

func (c *captureFile) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

func labGraphCommand(e cli.Env) *cobra.Command {
	var (
		out string
		dot bool
	)
	c := &cobra.Command{
		Use:   "graph [FILE]",
		Short: "Draw a topology, or the current state of a running lab",
		Long: `Draw a topology, or the current state of a running lab, as SVG, or as PNG or PDF if --out has that suffix. Drawing needs Graphviz;
--dot, which prints the input for Graphviz, does not.`,
		Example: `  baton-lab lab graph topology.yaml > topology.svg
  baton-lab lab graph --out lab.png
  baton-lab lab graph topology.yaml --dot`,
	}
	name := labFlag(c)
	c.Flags().StringVarP(&out, "out", "o", "", "write the drawing to this `file`, .svg, .png or .pdf")
	c.Flags().BoolVar(&dot, "dot", false, "print the input for Graphviz")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		format := "svg"
		if _, suffix, ok := strings.Cut(out[max(0, len(out)-4):], "."); ok && slices.Contains([]string{"svg", "png", "pdf"}, suffix) {
			format = suffix
		} else if out != "" && !dot {
			return cli.Usagef("--out %s: ends in none of .svg, .png, .pdf", out)
		}
		source, err := pictureSource(cmd, args, *name)
		if err != nil {
			return err
		}
		picture := []byte(source)
		if !dot {
			if picture, err = topology.Draw(cmd.Context(), source, format); err != nil {
				return err
			}
		}
		if out == "" {
			_, err = e.Out.Write(picture)
			return err
		}
		return os.WriteFile(out, picture, 0o644)
	}
	return c
}

func pictureSource(cmd *cobra.Command, args []string, name string) (source string, err error) {
	if len(args) == 1 {
		_, t, err := readTopology(args[0], "")
		if err != nil {
			return "", err
		}
		return t.DOT(nil), nil
	}
	err = rooted(func(*cobra.Command, []string) error {
		return asking(name, func(k *keeper.Client) error {
			s, err := k.Status(cmd.Context())
			if err != nil {
				return err
			}
			down := make(map[string]bool)
			for _, link := range s.Links {
				down[link.Name] = link.Down
			}
			source = s.Topology.DOT(down)
			return nil
		})
	})(cmd, args)
	return source, err
}
