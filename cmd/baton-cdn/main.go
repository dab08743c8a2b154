// Command baton-cdn has the parts of a CDN that do not run beside the data path: the name server and the controller. They have the verbs that the
// parts of baton have; baton nameserver and baton controller run this program.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

// version is set at build time.
var version = "dev"

// name is of this program in messages and examples.
const name = "baton-cdn"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, cli.Env{Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
}

func run(ctx context.Context, e cli.Env, args []string) int { return cli.Run(ctx, e, tree(e), args) }

// tree is the whole command tree.
func tree(e cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     name,
		Short:   "Runs the name server and the controller of a CDN",
		Version: version,
		Example: "  " + name + " version",
	}
	var here []string
	for _, p := range parts() {
		p.Program = name
		root.AddCommand(p.Command(e))
		here = append(here, "  "+name+" "+p.Name+" status")
	}
	if len(here) > 0 {
		root.Example = strings.Join(here, "\n")
	}
	var elsewhere []string
	for _, command := range []string{"router", "relay", "anycast", "forwarder", "balance", "purge", "get"} {
		elsewhere = append(elsewhere, command+"=baton "+command)
	}
	root.Annotations = map[string]string{cli.Elsewhere: strings.Join(elsewhere, ",")}
	root.AddCommand(policyCommand(e))
	root.AddCommand(part.HostStatus(e, name, parts), part.Version(e, name, version))
	return root
}

// parts are all parts of this program that run as daemons.
func parts() []*part.Part {
	return []*part.Part{nameserverPart(), controllerPart()}
}
