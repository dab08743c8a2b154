// Command baton-lab demonstrates and measures Baton: the demo, networks of namespaces, experiments, and third-party conformance tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
)

// version is set at build time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, cli.Env{Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
}

func run(ctx context.Context, e cli.Env, args []string) int { return cli.Run(ctx, e, tree(e), args) }

func tree(e cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     "baton-lab",
		Short:   "Shows and measures Baton in networks of namespaces on this machine",
		Version: version,
		Example: `  baton-lab demo
  baton-lab lab up examples/lab/ten.yaml
  baton-lab experiment run handoff`,
		Annotations: map[string]string{cli.Elsewhere: "router=baton router,relay=baton relay,anycast=baton anycast,forwarder=baton forwarder," +
			"balance=baton balance,purge=baton purge,nameserver=baton nameserver,controller=baton controller,get=baton get,status=baton status"},
	}
	root.AddCommand(demoCommand(e), labCommand(e), experimentCommand(e), conformanceCommand(e), vmCommand(e))
	return root
}

// program is the path of baton, which this program runs in its networks: beside this program, or in $PATH.
func program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), "baton")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	if path, err := exec.LookPath("baton"); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("find the program baton: it is neither %s nor in $PATH: run make build", beside)
}
