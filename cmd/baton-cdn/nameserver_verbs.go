package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/nameserver/sign"
)

var nameserverCommands = []func(*part.Part, cli.Env) *cobra.Command{queryCommand, decisionsCommand, surrogateCommand, keyCommand}

func queryCommand(p *part.Part, e cli.Env) *cobra.Command {
	var (
		client string
		dnssec bool
	)
	c := &cobra.Command{
		Use: "query NAME [TYPE]", SuggestFor: []string{"dig", "explain", "resolve", "lookup"},
		Short: "Show how the running name server answers a question, and why",
		Long: `Show how the running name server answers a question, and why: the zone, aliases and wildcards, and for a routed name how the surrogates
are chosen. The client is an address or a network, as a resolver tells it (client subnet).`,
		Example: `  baton-cdn nameserver query cdn.example.net
  baton-cdn nameserver query cdn.example.net AAAA --client 2001:db8:7::/48
  baton-cdn nameserver query www.example.net HTTPS --dnssec`,
	}
	p.Ask(c, func(ctx context.Context, asked *api.Client, format *cli.Format, args []string) error {
		q := api.NameserverQuestion{Name: args[0], DNSSEC: dnssec}
		if len(args) > 1 {
			q.Type = strings.ToUpper(args[1])
		}
		var err error
		if q.Client, err = network(client); err != nil {
			return err
		}
		x, err := asked.NameserverQuery(ctx, q)
		if err != nil {
			return err
		}
		return format.Print(e.Out, x, func(out io.Writer, _ bool) error { return printExplanation(out, &x) })
	})
	c.Flags().StringVar(&client, "client", "", "the client's `address` or network")
	c.Flags().BoolVar(&dnssec, "dnssec", false, "ask for signatures")
	return c
}

// network reads an address, of which resolvers tell the /24 or the /56 (RFC 7871, section 11.1), or a network.
func network(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		bits := 56
		if a.Is4() {
			bits = 24
		}
		return a.Prefix(bits)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, cli.Usagef("--client: %q is neither an address nor a network, such as 192.0.2.7 or 192.0.2.0/24", text)
	}
	return p.Masked(), nil
}

func printExplanation(out io.Writer, x *api.NameserverExplanation) error {
	fmt.Fprint(out, cli.Lines(x.Because))
	scope := ""
	if x.Scope != nil {
		scope = fmt.Sprintf(", for the client's /%d", *x.Scope)
	}
	fmt.Fprintf(out, "\n%s%s\n", x.Code, scope)
	for _, section := range [][]string{x.Answer, x.Nameserver, x.Additional} {
		fmt.Fprint(out, cli.Lines(section))
	}
	return nil
}

func decisionsCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Show(e, &cobra.Command{
		Use:   "decisions",
		Short: "Show which surrogates clients got last, and why",
		Long: `Show which surrogates clients got last, and why, the newest first. A busy name server keeps the first decisions of each second: to give
reasons costs more than to decide.`,
		Example: "  baton-cdn nameserver decisions\n  baton-cdn nameserver decisions -o json | jq '.[0].because'",
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		all, err := client.NameserverDecisions(ctx)
		if err != nil {
			return err
		}
		return format.Print(e.Out, all, func(out io.Writer, wide bool) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TIME\tCLIENT\tNAME\tSITE\tSURROGATE\tBECAUSE")
			for _, d := range all {
				why := d.Because
				if !wide && len(why) > 1 {
					why = why[len(why)-1:]
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Time.Format("15:04:05.000"), d.Client, d.Name, cli.Dash(d.Site), cli.Dash(d.Surrogate), strings.Join(why, "; "))
			}
			return w.Flush()
		})
	})
}

func surrogateCommand(p *part.Part, e cli.Env) *cobra.Command {
	var (
		state  cli.Choice
		weight int
	)
	c := &cobra.Command{
		Use: "surrogate NAME", SuggestFor: []string{"drain", "backend", "maintenance"},
		Short: "Change a surrogate of the running name server until its next start",
		Long:  "Change a surrogate of the running name server until its next start. Clients that have its address keep it for the TTL of the answer.",
		Example: `  baton-cdn nameserver surrogate se1 --state maintenance
  baton-cdn nameserver surrogate se1 --state in-service --weight 50`,
	}
	p.Ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, args []string) error {
		change := api.NameserverChange{Surrogate: args[0]}
		if c.Flags().Changed("state") {
			change.State = &state.Is
		}
		if c.Flags().Changed("weight") {
			change.Weight = &weight
		}
		if change.State == nil && change.Weight == nil {
			return cli.Usagef("--state or --weight is missing; for example: baton-cdn nameserver surrogate se1 --state maintenance")
		}
		u, err := client.NameserverChange(ctx, change)
		if err != nil {
			return err
		}
		return format.Print(e.Out, u, func(out io.Writer, _ bool) error {
			_, err := fmt.Fprintf(out, "%s: %s, weight %d\n", u.Name, u.State, u.Weight)
			return err
		})
	})
	state.Flag(c, "state", "`state`: in-service or maintenance", "", api.InService, api.Maintenance)
	c.Flags().IntVar(&weight, "weight", 0, "`weight`, from 0 on")
	return c
}

func keyCommand(_ *part.Part, e cli.Env) *cobra.Command {
	var (
		folder string
		format cli.Format
	)
	c := &cobra.Command{
		Use:   "key ZONE",
		Short: "Make a key that signs a zone's answers, or show the DS record of an existing one",
		Long: `Make a key that signs a zone's answers (ECDSAP256SHA256): two files, of which the configuration names the path without .key and .private. The DS
record that is printed belongs into the zone above, once the answers are signed. A path of such files prints the DS record of that key.`,
		Example: `  baton-cdn nameserver key example.net --folder /etc/baton
  baton-cdn nameserver key /etc/baton/Kexample.net.+013+12345`,
		RunE: func(_ *cobra.Command, args []string) error {
			path, ds, err := keyOf(args[0], folder)
			if err != nil {
				return err
			}
			data := struct {
				Path string `json:"path"`
				DS   string `json:"ds"`
			}{path, ds}
			return format.Print(e.Out, data, func(out io.Writer, _ bool) error {
				_, err := fmt.Fprintf(out, "key: %s\n%s\n", path, ds)
				return err
			})
		},
	}
	c.Flags().StringVar(&folder, "folder", ".", "`folder` of the new files")
	format.Flag(c)
	return c
}

// keyOf makes a key of a zone, or reads that of a path.
func keyOf(of, folder string) (path, ds string, err error) {
	path = strings.TrimSuffix(strings.TrimSuffix(of, ".private"), ".key")
	if strings.Contains(path, "/") || part.Exists(path+".key") {
		text, err := os.ReadFile(path + ".key")
		if err != nil {
			return "", "", cli.UsageError{Err: err}
		}
		rr, err := dns.NewRR(string(text))
		key, ok := rr.(*dns.DNSKEY)
		if err != nil || !ok {
			return "", "", cli.Usagef("%s.key holds no DNSKEY record", path)
		}
		return path, key.ToDS(dns.SHA256).String(), nil
	}
	if _, ok := dns.IsDomainName(of); !ok {
		return "", "", cli.Usagef("%q is not a domain name", of)
	}
	path, key, err := sign.Generate(folder, of)
	if errors.Is(err, os.ErrExist) {
		return "", "", cli.UsageError{Err: err}
	}
	if err != nil {
		return "", "", err
	}
	return path, key.ToDS(dns.SHA256).String(), nil
}
