package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/document"
	"baton/nameserver/route"
	"baton/policy"
	"baton/policy/config"
)

// policyCommand has the commands about a request-routing policy that need no daemon.
func policyCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:     "policy",
		Short:   "The request-routing policy, which says which surrogate serves a client",
		Long:    "The request-routing policy, which says which surrogate serves a client: the section policy of a name server or a controller, or a file of its own.",
		Example: "  baton-cdn policy explain -c policy.yaml --client 10.11.0.7 'http://cdn.example.org/a.jpg?size=2'",
	}
	c.AddCommand(explainPolicy(e), checkPolicy(e), part.Schema(e, name, "policy", config.Schema))
	return c
}

func policyFile(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", "/etc/baton/policy.yaml", "policy, or a configuration with the section policy: a `file`")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
}

func loadPolicy(file string) (*policy.Policy, error) {
	cfg, beside, err := config.LoadSection(file)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	if slices.Contains(beside, "zones") { // a name server's
		*cfg = route.Defaults(*cfg)
	}
	p, err := policy.Load(*cfg, nil)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return p, nil
}

func checkPolicy(e cli.Env) *cobra.Command {
	var (
		file   string
		format cli.Format
	)
	c := &cobra.Command{
		Use: "check", SuggestFor: []string{"validate", "verify", "test", "lint"},
		Short:   "Check a policy, its zone file and its database for mistakes",
		Long:    "Check a policy, its zone file and its database for mistakes. Each is printed with its line; the exit status is then 2. Warnings leave it at 0.",
		Example: "  baton-cdn policy check -c policy.yaml\n  baton-cdn policy check -c nameserver.yaml -o json",
		RunE: func(*cobra.Command, []string) error {
			p, err := loadPolicy(file)
			if err != nil {
				return err
			}
			cli.Warn(e.Err, p.Warnings())
			surrogates := 0
			for _, s := range p.Config().Sites {
				surrogates += len(s.Surrogates)
			}
			has := fmt.Sprintf("%s, %s, %s", cli.Count(len(p.Config().Sites), "site"), cli.Count(surrogates, "surrogate"), cli.Count(len(p.Zones()), "coverage zone"))
			data := struct {
				Config   string   `json:"config"`
				Has      string   `json:"has"`
				Warnings []string `json:"warnings"`
			}{file, has, append([]string{}, p.Warnings()...)}
			return format.Print(e.Out, data, func(out io.Writer, _ bool) error {
				_, err := fmt.Fprintf(out, "%s: policy OK: %s\n", file, has)
				return err
			})
		},
	}
	policyFile(c, &file)
	format.Flag(c)
	return c
}

// supposed is the state that a user supposes, by names of surrogates.
type supposed struct {
	down, maintenance []string
	sessions, weight  map[string]string // numbers
}

func explainPolicy(e cli.Env) *cobra.Command {
	var (
		file, client, key string
		state             supposed
		format            cli.Format
	)
	c := &cobra.Command{
		Use: "explain URL", SuggestFor: []string{"why", "decide", "route", "try"},
		Short: "Show which surrogate a client would get, and why",
		Long: `Show which surrogate a client would get by the policy in a file, and why. No daemon is asked: all surrogates are up and have no sessions, unless
the flags say otherwise. The URL may lack its scheme and host.`,
		Example: `  baton-cdn policy explain -c policy.yaml --client 10.11.0.7 'http://cdn.example.org/a.jpg?size=2'
  baton-cdn policy explain --client 2001:db8:11::7 --down se1 --sessions se2=510,se3=20 /a.jpg
  baton-cdn policy explain --client 10.11.0.0/24 --maintenance se1,se2 -o json cdn.example.org`,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := loadPolicy(file)
			if err != nil {
				return err
			}
			q := policy.Query{Sticky: key, Random: rand.Uint64()}
			if q.Client, err = clientOf(client); err != nil {
				return err
			}
			q.Host, q.Path, q.RawQuery = splitURL(args[0])
			seen, err := state.observed(p)
			if err != nil {
				return err
			}
			cli.Warn(e.Err, p.Warnings())
			d := p.State(nil, seen, nil).Explain(&q)
			return printDecision(e.Out, &format, &d)
		},
	}
	policyFile(c, &file)
	c.Flags().StringVar(&client, "client", "", "the client's `address` or network")
	_ = c.MarkFlagRequired("client")
	c.Flags().StringVar(&key, "key", "", "the `key` for the spread key")
	c.Flags().StringSliceVar(&state.down, "down", nil, "`names` of surrogates that are down")
	c.Flags().StringSliceVar(&state.maintenance, "maintenance", nil, "`names` of surrogates that are in maintenance")
	c.Flags().StringToStringVar(&state.sessions, "sessions", nil, "sessions of surrogates, as `name=number`")
	c.Flags().StringToStringVar(&state.weight, "weight", nil, "weights of surrogates, as `name=number`")
	format.Flag(c)
	return c
}

// clientOf reads an address or a network.
func clientOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return policy.Whole(a), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, cli.Usagef("--client: %q is neither an address nor a network, such as 192.0.2.7 or 192.0.2.0/24", text)
	}
	return p, nil
}

// splitURL takes apart what need not be a whole URL. It does not decode anything: the policy gets a request's path as it is.
func splitURL(s string) (host, path, query string) {
	s, _, _ = strings.Cut(s, "#")
	if _, after, scheme := strings.Cut(s, "://"); scheme {
		s = after
	}
	s, query, _ = strings.Cut(s, "?")
	if slash := strings.IndexByte(s, '/'); slash >= 0 {
		s, path = s[:slash], s[slash:]
	}
	return s, path, query
}

func (s *supposed) observed(p *policy.Policy) (map[string]policy.Observed, error) {
	seen := make(map[string]policy.Observed)
	change := func(flag, name string, change func(*policy.Observed)) error {
		if u, _ := p.Surrogate(name); u == nil {
			return cli.Usagef("--%s: %q is no surrogate: %s", flag, document.Clip(name), document.Meant(name, surrogateNames(p)))
		}
		o := seen[name]
		change(&o)
		seen[name] = o
		return nil
	}
	for _, name := range s.down {
		if err := change("down", name, func(o *policy.Observed) { o.Down = true }); err != nil {
			return nil, err
		}
	}
	for _, name := range s.maintenance {
		if err := change("maintenance", name, func(o *policy.Observed) { o.Maintenance = new(true) }); err != nil {
			return nil, err
		}
	}
	for flag, numbers := range map[string]map[string]string{"sessions": s.sessions, "weight": s.weight} {
		for name, text := range numbers {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return nil, cli.Usagef("--%s: %q is not a whole number from 0 on", flag, text)
			}
			err = change(flag, name, func(o *policy.Observed) {
				if flag == "weight" {
					o.Weight = &n
				} else {
					o.Sessions = n
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return seen, nil
}

func surrogateNames(p *policy.Policy) (out []string) {
	for _, site := range p.Config().Sites {
		for _, u := range site.Surrogates {
			out = append(out, u.Name)
		}
	}
	return out
}

// printDecision prints the reasons, and then the surrogates in the order in which they are tried.
func printDecision(to io.Writer, format *cli.Format, d *policy.Decision) error {
	data := struct {
		Site       string   `json:"site,omitempty"`
		Surrogates []string `json:"surrogates"`
		Method     string   `json:"method,omitempty"` // how the client's site was found
		Scope      int      `json:"scope"`
		Bypass     string   `json:"bypass,omitempty"`
		Because    []string `json:"because"`
	}{Surrogates: []string{}, Method: string(d.Method), Scope: d.Scope, Bypass: d.Bypass, Because: d.Because}
	for _, c := range d.Choices {
		data.Surrogates = append(data.Surrogates, c.Surrogate.Name)
	}
	if d.Site != nil {
		data.Site = d.Site.Name
	}
	return format.Print(to, data, func(out io.Writer, _ bool) error {
		fmt.Fprint(out, cli.Lines(d.Because))
		if d.Site != nil {
			fmt.Fprintf(out, "\nsite %s: %s\n", data.Site, strings.Join(data.Surrogates, ", "))
		}
		return nil
	})
}
