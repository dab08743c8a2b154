package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
)

// part describes a part to the code that makes its commands (verbs.go). So all parts have the same verbs, flags and file names.
type part struct {
	name     string // of its command, its unit baton-NAME.service and its file /etc/baton/NAME.yaml
	noun     string // in sentences: "router", "site or planner"
	short    string
	long     string
	runs     string   // for `run --help`: signals, and state that outlives the process
	reloads  string   // for `reload --help`: what a reload keeps
	cleans   string   // for `cleanup --help`: what is removed
	shows    string   // for `status --help`
	examples string   // additional ones of status
	sockets  []string // patterns of control sockets: the default, and that of the systemd unit

	// control returns a configuration's control socket, without reading the passwords and keys that the file names.
	control func(file string, text []byte) (string, error)
	// check reads and checks a configuration file, as run does. The error is a mistake of the user's.
	check func(file string) (checked, error)
	// fits adds how a valid configuration fits this host. It is only for check, as a daemon waits for interfaces and the like. It may be nil.
	fits func(file string, have *checked) error
	// connects adds warnings of what the configured servers answer, for check --connect. It may be nil: then there is no such flag.
	connects func(ctx context.Context, file string, have *checked) error
	// run is the daemon, until the context ends.
	run func(ctx context.Context, d daemon) error
	// status asks a running daemon.
	status func(ctx context.Context, client *api.Client) (status, error)
	// cleanup removes the state that a daemon has left, and names it.
	cleanup func(file string) (removed []string, err error)
	// more are the part's own commands.
	more []func(p *part, e cli.Env) *cobra.Command
}

// file is the default configuration file.
func (p *part) file() string { return "/etc/baton/" + p.name + ".yaml" }

// daemon is what a part's run gets.
type daemon struct {
	file string
	log  *slog.Logger
	err  io.Writer
}

// checked is the result of checking a valid configuration.
type checked struct {
	Config   string   `json:"config"`
	Has      string   `json:"has"` // what is configured: "1 VIP, 2 pools"
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes,omitempty"` // its effects
}

// status is an answer of a running daemon.
type status struct {
	data  any // for JSON
	table func(out io.Writer, wide bool) error
	brief brief
}

// brief is a daemon in a line of `baton status`.
type brief struct {
	Part    string    `json:"part"`
	Name    string    `json:"name,omitempty"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Config  string    `json:"config"`
	State   string    `json:"state"` // at a glance
	Control string    `json:"control"`
}

// count is a number of things, "1 pool", "2 pools", "2 entries", "2 prefixes".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if stem, ok := strings.CutSuffix(one, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(one, "x") {
		one += "e"
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// onHangup has a running daemon reload at each SIGHUP, until stop is called. What comes of it the daemon logs itself.
func onHangup(reload func()) (stop func()) { return onSignal(syscall.SIGHUP, reload) }

// onSignal calls a function at each signal of a kind, until stop is called.
func onSignal(kind os.Signal, call func()) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, kind)
	go func() {
		for range signals {
			call()
		}
	}()
	return func() { signal.Stop(signals) }
}

// exists tells whether there is something under a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
