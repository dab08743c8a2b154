package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/router"
	"baton/router/explain"
)

func routerDecisionsCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Show(e, &cobra.Command{
		Use:   "decisions",
		Short: "Show which surrogates clients got last by policies of files, and why",
		Long: `Show which surrogates clients got last by policies of files, and why, the newest first. The kernel decides most requests by itself, and leaves no reasons:
see "baton router explain". Of each second the first decisions are kept.`,
		Example: "  baton router decisions\n  baton router decisions -o json | jq '.[0].because'",
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		all, err := client.RouterDecisions(ctx)
		if err != nil {
			return err
		}
		return format.Print(e.Out, all, func(out io.Writer, wide bool) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TIME\tMETHOD\tCLIENT\tHOST\tPATH\tSITE\tSURROGATE\tBECAUSE")
			for _, d := range all {
				why := d.Because
				if !wide && len(why) > 1 {
					why = why[len(why)-1:]
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Time.Format("15:04:05.000"), d.Method, d.Client, d.Name, cli.Dash(d.Path), cli.Dash(d.Site), cli.Dash(d.Surrogate), strings.Join(why, "; "))
			}
			return w.Flush()
		})
	})
}

// request is the request to explain, as typed.
type request struct {
	client, method string
	headers, alpn  []string
	offline        bool
}

func routerExplainCommand(p *part.Part, e cli.Env) *cobra.Command {
	var (
		at     = part.Asked{Part: p}
		format cli.Format
		r      request
	)
	c := &cobra.Command{
		Use:   "explain URL",
		Short: "Explain which surrogate a request would get, and why",
		Long: `Explain which surrogate a request would get: the rule, the pool, and the surrogates that are unavailable.

The running router answers, using its current view of health. With --offline the command uses the configuration file and treats all surrogates as up.`,
		Example: `  baton router explain http://cdn.example.net/video/1.mp4
  baton router explain http://10.9.9.9/x --client 192.0.2.7 --header 'Host: cdn.example.net'
  baton router explain https://shop.example.net
  baton router explain --offline -c router.yaml http://cdn.example.net/video/1.mp4`,
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := r.question(args[0])
		if err != nil {
			return err
		}
		if err := at.Choose(cmd); err != nil {
			return err
		}
		a, err := r.explain(cmd.Context(), &at, q)
		if err != nil {
			return err
		}
		return format.Print(e.Out, a, func(out io.Writer, _ bool) error {
			_, err := fmt.Fprint(out, cli.Lines(a.Steps))
			return err
		})
	}
	at.Flags(c)
	format.Flag(c)
	f := c.Flags()
	f.StringSliceVar(&r.alpn, "alpn", nil, "the `protocols` that the hello of an https URL offers (default h2,http/1.1)")
	f.BoolVar(&r.offline, "offline", false, "use the configuration file, not the running router")
	f.StringVar(&r.client, "client", "", "the client's `address`")
	f.StringVar(&r.method, "method", "", "the request's `method` (default GET)")
	f.StringArrayVar(&r.headers, "header", nil, "a `Name: value` of the request; may be repeated")
	return c
}

func (r *request) question(url string) (api.RouterQuestion, error) {
	q := api.RouterQuestion{URL: url, Method: r.method, ALPN: r.alpn}
	if r.client != "" {
		a, err := netip.ParseAddr(r.client)
		if err != nil {
			return q, cli.Usagef("--client: %q is not an IP address, such as 192.0.2.7", r.client)
		}
		q.Client = a
	}
	for _, h := range r.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return q, cli.Usagef("--header: %q is not NAME: VALUE, such as 'Host: cdn.example.net'", h)
		}
		q.Headers = append(q.Headers, api.RouterHeader{Name: name, Value: strings.TrimSpace(value)})
	}
	return q, nil
}

func (r *request) explain(ctx context.Context, at *part.Asked, q api.RouterQuestion) (a api.RouterExplanation, err error) {
	if !r.offline {
		err = at.Ask(ctx, func(ctx context.Context, client *api.Client) error {
			a, err = client.RouterExplain(ctx, q)
			return err
		})
		return a, err
	}
	cfg, err := loadRouter(at.Config)
	if err != nil {
		return a, cli.UsageError{Err: err}
	}
	rules, err := explain.Compile(cfg)
	if err != nil {
		return a, cli.UsageError{Err: err}
	}
	x, err := rules.Explain(explain.Question{Method: q.Method, URL: q.URL, ALPN: q.ALPN, Client: q.Client, Headers: r.headers}, explain.AllUp)
	if err != nil {
		return a, cli.UsageError{Err: err}
	}
	return router.Explained(x), nil
}
