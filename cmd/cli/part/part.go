// Package part makes the commands of a part that runs as a daemon, the same for all parts of all programs: run, check, status, reload and cleanup.
package part

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/document"
)

// Part describes a part to the code that makes its commands (verbs.go). So all parts have the same verbs, flags and file names.
type Part struct {
	Name     string // of its command, its unit baton-NAME.service and its file /etc/baton/NAME.yaml
	Program  string // that has its commands; "": baton
	Noun     string // in sentences: "router", "site or planner"
	Short    string
	Long     string
	Runs     string   // for `run --help`: signals, and state that outlives the process
	Reloads  string   // for `reload --help`: what a reload keeps
	Cleans   string   // for `cleanup --help`: what is removed
	Shows    string   // for `status --help`
	Examples string   // additional ones of status
	Sockets  []string // patterns of control sockets: the default, and that of the systemd unit

	// Control returns a configuration's control socket, without reading the passwords and keys that the file names.
	Control func(file string, text []byte) (string, error)
	// Schema is the JSON Schema of the configuration.
	Schema func() document.Schema
	// Check reads and checks a configuration file, as run does. The error is a mistake of the user's.
	Check func(file string) (Checked, error)
	// Lacks says what keeps the part from starting on this host with a configuration file, a line each. It may be nil.
	Lacks func(file string) ([]string, error)
	// Fits adds how a valid configuration fits this host. It is only for check, as a daemon waits for interfaces and the like. It may be nil.
	Fits func(file string, have *Checked) error
	// Connects adds warnings of what the configured servers answer, for check --connect. It may be nil: then there is no such flag.
	Connects func(ctx context.Context, file string, have *Checked) error
	// Run is the daemon, until the context ends.
	Run func(ctx context.Context, d Daemon) error
	// Status asks a running daemon.
	Status func(ctx context.Context, client *api.Client) (Status, error)
	// Cleanup removes the state that a daemon has left, and names it.
	Cleanup func(file string) (removed []string, err error)
	// More are the part's own commands.
	More []func(p *Part, e cli.Env) *cobra.Command
}

// File is the default configuration file.
func (p *Part) File() string { return "/etc/baton/" + p.Name + ".yaml" }

func (p *Part) program() string {
	if p.Program == "" {
		return "baton"
	}
	return p.Program
}

// Daemon is what a part's run gets.
type Daemon struct {
	File string
	Log  *slog.Logger
	Err  io.Writer
}

// Checked is the result of checking a valid configuration.
type Checked struct {
	Config   string   `json:"config"`
	Has      string   `json:"has"` // what is configured: "1 VIP, 2 pools"
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes,omitempty"` // its effects
}

// Status is an answer of a running daemon.
type Status struct {
	Data  any // for JSON
	Table func(out io.Writer, wide bool) error
	Brief Brief
}

// Brief is a daemon in a line of `baton status`.
type Brief struct {
	Part    string    `json:"part"`
	Name    string    `json:"name,omitempty"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Config  string    `json:"config"`
	State   string    `json:"state"` // at a glance
	Control string    `json:"control"`
}

// OnHangup has a running daemon reload at each SIGHUP, until stop is called. What comes of it the daemon logs itself.
func OnHangup(reload func()) (stop func()) { return OnSignal(syscall.SIGHUP, reload) }

// OnSignal calls a function at each signal of a kind, until stop is called.
func OnSignal(kind os.Signal, call func()) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, kind)
	go func() {
		for range signals {
			call()
		}
	}()
	return func() { signal.Stop(signals) }
}

// Exists tells whether there is something under a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
