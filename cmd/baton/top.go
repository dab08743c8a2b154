package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

// topEvery is the time between two samples.
const topEvery = time.Second

func topCommand(e cli.Env) *cobra.Command {
	var (
		named  []string
		once   bool
		format cli.Format
		by     cli.Choice
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live sessions, rates, surrogates and verdicts of this host's parts",
		Long: `Show what the parts that run on this host do, in the terminal, once a second: live sessions, rates,
surrogates (and relays' peers, links, ports and the like), what a router proxies at each VIP with the first reason, and
verdicts on packets. Keys: l, r, b and n sort by what is live, rate, bytes and name; space pauses; q quits.
With --once, or as JSON or YAML, it prints once; rates are those of a second.`,
		Example: "  baton top\n  baton top --once --sort rate\n  baton top --control /run/baton/router.sock -o json | jq '.items[] | {name, live, rate}'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := &topSampler{sockets: topSockets(named), now: time.Now}
			if once || format != cli.Table {
				return topOnce(cmd.Context(), e.Out, t, &format, by.Is)
			}
			in, out := os.Stdin, e.Out
			file, ok := out.(*os.File)
			if !ok || !term.IsTerminal(int(file.Fd())) || !term.IsTerminal(int(in.Fd())) {
				return cli.Usagef("the output is not a terminal: baton top --once prints once, -o json for programs")
			}
			return topTerminal(cmd.Context(), in, file, t, by.Is)
		},
	}
	c.Flags().StringArrayVar(&named, "control", nil, "control `socket` of a daemon; may be given again (default: those of all on this host)")
	_ = c.MarkFlagFilename("control", "sock")
	c.Flags().BoolVar(&once, "once", false, "print once, for scripts")
	by.Flag(c, "sort", "sort by `word`: live, rate, bytes, name", "live", "live", "rate", "bytes", "name")
	format.Flag(c)
	return c
}

// topOnce prints a sample whose rates are those of a second.
func topOnce(ctx context.Context, out io.Writer, t *topSampler, format *cli.Format, by string) error {
	s := t.sample(ctx)
	if err := s.check(onHost()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(topEvery):
	}
	s = t.sample(ctx)
	s.sort(by)
	if err := format.Print(out, s, func(out io.Writer, _ bool) error { return printTop(out, &s, by) }); err != nil {
		return err
	}
	for _, p := range s.Parts {
		if p.Error != "" {
			return fmt.Errorf("%s: %s", p.Control, p.Error)
		}
	}
	return nil
}

// Sequences of terminals (ECMA-48, and DEC's private modes).
const (
	topEnter = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	topLeave = "\x1b[?25h\x1b[?1049l"
	topHome  = "\x1b[H"
	topClear = "\x1b[K" // to the end of the line
	topBold  = "\x1b[1m"
	topPlain = "\x1b[0m"
)

// topTerminal shows samples until the user quits or ctx ends.
func topTerminal(ctx context.Context, in, out *os.File, t *topSampler, by string) error {
	s := t.sample(ctx)
	if err := s.check(onHost()); err != nil {
		return err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	fmt.Fprint(out, topEnter)
	defer func() {
		fmt.Fprint(out, topLeave)
		_ = term.Restore(int(in.Fd()), before)
	}()
	resized := make(chan struct{}, 1)
	defer part.OnSignal(syscall.SIGWINCH, func() {
		select {
		case resized <- struct{}{}:
		default:
		}
	})()
	keys := topKeys(in)
	ticker := time.NewTicker(topEvery)
	defer ticker.Stop()
	paused := false
	for {
		s.sort(by)
		if err := topDraw(out, &s, by, paused); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case <-ticker.C:
			if !paused {
				s = t.sample(ctx)
			}
		case key, ok := <-keys:
			switch {
			case !ok || key == 'q' || key == 'Q' || key == 3: // Ctrl-C, which is no signal in a raw terminal
				return nil
			case key == ' ':
				paused = !paused
			case topOrders[key] != "":
				by = topOrders[key]
			}
		}
	}
}

// topKeys are the bytes that a user types. The goroutine ends with the process: a terminal's read cannot be interrupted.
func topKeys(in io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var b [1]byte
		for {
			if n, err := in.Read(b[:]); n == 0 || err != nil {
				return
			}
			keys <- b[0]
		}
	}()
	return keys
}

func topDraw(out *os.File, s *topSample, by string, paused bool) error {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(topHome)
	for i, line := range topScreen(s, by, paused, width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i == 0 || strings.HasPrefix(line, "PART") || strings.HasPrefix(line, "ITEM") || strings.HasPrefix(line, "VERDICT") {
			line = topBold + line + topPlain
		}
		b.WriteString(line + topClear)
	}
	_, err = io.WriteString(out, b.String())
	return err
}
