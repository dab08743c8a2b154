package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"baton/cmd/cli"
	"baton/lab"
	"baton/lab/guest"
)

func vmCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "vm",
		Short: "Boot virtual machines with other kernels: Debian's, from its archive",
		Long: `Boot virtual machines with other kernels: Debian's, from its archive.

Root and kernel are made at the first use, which takes a minute or two, and kept in /var/cache/baton-lab ($BATON_LAB_CACHE).
A machine writes to a copy of its disk that ends with it. QEMU interprets its instructions, 10 to 20 times slower than this
machine, unless $BATON_LAB_ACCEL is kvm.`,
		Example: `  baton-lab vm kernels
  baton-lab vm run --kernel 6.12 -- uname -a
  baton-lab vm run --kernel newest --copy bin/baton:/usr/local/bin/baton -- baton router check -c /etc/baton/router.yaml
  baton-lab vm shell --kernel trixie`,
	}
	c.AddCommand(vmKernelsCommand(e), vmRunCommand(e), vmShellCommand(e))
	return c
}

func vmKernelsCommand(e cli.Env) *cobra.Command {
	arch, flavour := runtime.GOARCH, string(guest.Cloud)
	c := &cobra.Command{
		Use:     "kernels",
		Short:   "List the newest kernel of each series in Debian's archive",
		Example: "  baton-lab vm kernels --arch arm64",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := guest.OpenCache()
			if err != nil {
				return err
			}
			all, err := cache.Kernels(cmd.Context(), arch, guest.Flavour(flavour))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.Out, strings.Join(all, "\n"))
			return err
		},
	}
	c.Flags().StringVar(&arch, "arch", arch, "amd64 or arm64")
	c.Flags().StringVar(&flavour, "flavour", flavour, "cloud, or plain: with drivers of real network cards")
	return c
}

// vmFlags are those of a machine to boot.
type vmFlags struct {
	guest.Spec
	flavour string
	copies  []string
	fetches []string
	timeout time.Duration
}

func (f *vmFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.Kernel, "kernel", guest.Suite, "a series (6.12), a version, newest, or "+guest.Suite+": that release's own")
	fs.StringVar(&f.flavour, "flavour", string(guest.Cloud), "cloud, or plain: with drivers of real network cards")
	fs.StringVar(&f.Arch, "arch", runtime.GOARCH, "amd64 or arm64")
	fs.StringSliceVar(&f.Packages, "package", nil, "Debian `packages` of its root, beside the usual ones")
	fs.StringArrayVar(&f.copies, "copy", nil, "a file or folder to copy first, `FROM:TO`; any number of them")
	fs.IntVar(&f.Memory, "memory", 3072, "in MiB")
	fs.IntVar(&f.Processors, "processors", 2, "how many processors it has")
	fs.BoolVar(&f.Systemd, "systemd", false, "boot Debian's init; without, a shell is all that runs")
	fs.StringVar(&f.Append, "append", "", "`words` for the kernel's command line")
	fs.DurationVar(&f.timeout, "timeout", 30*time.Minute, "kill the machine after that time")
}

// boot boots the machine and calls f with it.
func (f *vmFlags) boot(ctx context.Context, e cli.Env, do func(context.Context, *guest.Guest) error) error {
	f.Spec.Flavour = guest.Flavour(f.flavour)
	if f.Spec.Flavour != guest.Cloud && f.Spec.Flavour != guest.Plain {
		return cli.UsageError{Err: fmt.Errorf("--flavour: %q is not a flavour (cloud, plain)", f.flavour)}
	}
	copies, err := parsePairs("--copy", f.copies)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return lab.Run(io.Discard, func(l *lab.Lab) error {
		began := time.Now()
		g, err := guest.Boot(ctx, l.Host("vm"), f.Spec)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.Err, "Linux %s has booted in %.0f s\n", g.Kernel, time.Since(began).Seconds())
		for _, c := range copies {
			if err := g.Put(ctx, c.from, c.to); err != nil {
				return err
			}
		}
		return do(ctx, g)
	})
}

// pair is a value of --copy or --fetch.
type pair struct{ from, to string }

// parsePairs reads values of the form FROM:TO.
func parsePairs(flag string, values []string) (pairs []pair, err error) {
	for _, v := range values {
		from, to, _ := strings.Cut(v, ":")
		if from == "" || to == "" {
			return nil, cli.UsageError{Err: fmt.Errorf("%s: %q is not FROM:TO", flag, v)}
		}
		pairs = append(pairs, pair{from, to})
	}
	return pairs, nil
}

func vmRunCommand(e cli.Env) *cobra.Command {
	var f vmFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND...",
		Short: "Boot a machine, run a command in it, and end it",
		Long: `Boot a machine, run a command in its shell as root, and end it. The exit status is that of the command.

Several words are joined with spaces, as ssh does.`,
		Example: `  baton-lab vm run -- uname -r
  baton-lab vm run --kernel 6.12 --copy bin/baton:/usr/local/bin/baton -- 'baton check-host; ls /sys/fs/bpf'
  baton-lab vm run --fetch /var/log:logs -- 'dmesg > /var/log/dmesg'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("COMMAND is missing: baton-lab vm run -- uname -r")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			fetches, err := parsePairs("--fetch", f.fetches)
			if err != nil {
				return err
			}
			return rooted(func(*cobra.Command, []string) error {
				return f.boot(cmd.Context(), e, func(ctx context.Context, g *guest.Guest) error {
					r, err := g.Run(ctx, guest.Command{Script: strings.Join(args, " "), Output: e.Out})
					if err != nil {
						return err
					}
					for _, c := range fetches {
						if err := g.Fetch(ctx, c.from, c.to); err != nil {
							return err
						}
					}
					if r.Status != 0 {
						return cli.ExitError{Err: fmt.Errorf("the command ended with exit status %d", r.Status), Status: r.Status, Silent: true}
					}
					return nil
				})
			})(cmd, args)
		},
	}
	f.add(c)
	c.Flags().StringArrayVar(&f.fetches, "fetch", nil, "a file or folder to copy back afterwards, `FROM:TO`; any number of them")
	return c
}

func vmShellCommand(e cli.Env) *cobra.Command {
	var f vmFlags
	c := &cobra.Command{
		Use:     "shell",
		Short:   "Boot a machine and open a shell in it; its end ends the machine",
		Example: "  baton-lab vm shell --kernel 7.0 --copy bin/baton:/usr/local/bin/baton",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !term.IsTerminal(int(os.Stdin.Fd())) {
				return errors.New("a shell needs a terminal: use baton-lab vm run")
			}
			return rooted(func(*cobra.Command, []string) error {
				return f.boot(cmd.Context(), e, func(_ context.Context, g *guest.Guest) error { return g.Shell() })
			})(cmd, args)
		},
	}
	f.add(c)
	return c
}
