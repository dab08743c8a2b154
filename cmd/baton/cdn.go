package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

// cdn is the program that has the parts which do not run beside the data path (see docs/decisions/0042).
const cdn = "baton-cdn"

// distant is a part whose commands another program has.
type distant struct{ name, short string }

func elsewhere() []distant {
	return []distant{
		{"controller", "The controller of a CDN's OpenFlow switches; run by " + cdn},
		{"nameserver", "The CDN's authoritative name server, with request routing by DNS; run by " + cdn},
	}
}

// command runs the other program in place of this one.
func (d distant) command(cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   d.name + " [ARGUMENT]...",
		Short: d.short,
		Long: fmt.Sprintf("%s %s is run instead of this command, with the same arguments: the program beside baton, or in $PATH.\n%[1]s %[2]s --help has the commands.",
			cdn, d.name),
		Example:            fmt.Sprintf("  baton %[1]s run -c %[1]s.yaml\n  baton %[1]s status", d.name),
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := program(cdn)
			if err != nil {
				return err
			}
			err = syscall.Exec(path, append([]string{cdn, d.name}, args...), os.Environ())
			return fmt.Errorf("run %s: %w", path, err)
		},
	}
}

// program is the path of another program of Baton's: beside this one, or in $PATH.
func program(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if part.Exists(beside) {
		return beside, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %[1]s is missing: it is neither %[2]s nor in $PATH; install the package %[1]s, or build it: make build", name, beside)
	}
	return filepath.Abs(path)
}

// onHost are all parts that may run on this host.
func onHost() []*part.Part {
	all := parts()
	for _, d := range elsewhere() {
		all = append(all, &part.Part{
			Name: d.name, Program: cdn, Sockets: []string{"/run/baton/" + d.name + ".sock", "/run/baton-" + d.name + "/" + d.name + ".sock"},
			Control: func(string, []byte) (string, error) { return "", errors.New("only " + cdn + " reads this file") },
			Status: func(ctx context.Context, client *api.Client) (part.Status, error) {
				s, err := client.Status(ctx)
				return part.Status{Brief: part.Brief{
					Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config, State: "running",
				}}, err
			},
		})
	}
	return all
}
