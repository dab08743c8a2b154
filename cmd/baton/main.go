// Command baton is Baton: a command for each part, with the same verbs for all. See cmd/cli/part.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/cmd/cli/hostcheck"
	"baton/cmd/cli/part"
)

// version is set at build time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, cli.Env{Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
}

func run(ctx context.Context, e cli.Env, args []string) int { return cli.Run(ctx, e, tree(e), args) }

// tree is the whole command tree.
func tree(e cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     "baton",
		Short:   "Hands live TCP sessions to the server that should answer them",
		Version: version,
		Example: `  baton router run -c router.yaml
  baton status
  baton get -O https://cdn.example.net/image.iso`,
		Annotations: map[string]string{cli.Elsewhere: "demo=baton-lab demo,lab=baton-lab lab,experiment=baton-lab experiment," +
			"conformance=baton-lab conformance"},
	}
	for _, p := range parts() {
		root.AddCommand(p.Command(e))
	}
	for _, of := range elsewhere() {
		root.AddCommand(of.command(e))
	}
	root.AddCommand(getCommand(e), topCommand(e), part.HostStatus(e, "baton", onHost), hostcheck.Command(e, "baton", tools), part.Version(e, "baton", version))
	return root
}

// parts are all parts that run as daemons.
func parts() []*part.Part {
	return fitParts([]*part.Part{routerPart(), relayPart(), anycastPart(), forwarderPart(), balancePart(), purgePart()})
}
