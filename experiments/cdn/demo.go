package cdn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// DemoOptions are those of Demo.
type DemoOptions struct {
	Options
	// Keep is called after the checks with what can be tried; the network lives until it returns. nil: it ends at once.
	Keep func(*Report, []Command)
}

// Command is something that the user can try on the network of a run.
type Command struct {
	Line string // for a shell, as root
	Does string
}

// Report is what a run has seen.
type Report struct {
	Up       time.Duration `json:"up_ns"` // until the network was up
	Checks   []Check       `json:"checks"`
	Requests []Request     `json:"requests"`
	Decision []string      `json:"decision"` // of the request router, about one of the requests: its steps

	Topology api.ControllerTopology  `json:"topology"` // as the controller knows it in the end
	Handoffs []api.ControllerHandoff `json:"handoffs"` // that the controller made: none in native mode
}

// Check is something that must hold.
type Check struct {
	Text string `json:"text"`
	OK   bool   `json:"ok"`
	Said string `json:"said,omitempty"` // what was seen instead
}

// Request is a request of a client.
type Request struct {
	Client    string        `json:"client"`
	URL       string        `json:"url"`
	Surrogate string        `json:"surrogate"`
	Cache     string        `json:"cache"` // nginx's word: MISS, HIT
	Status    int           `json:"status"`
	Bytes     int           `json:"bytes"`
	FirstByte time.Duration `json:"first_byte_ns"`
}

// ErrFailed says that a check of the report does not hold.
var ErrFailed = errors.New("cdn: not everything is as it should be")

// Demo builds the network, has clients visit the gallery, and takes everything away again.
func Demo(ctx context.Context, o DemoOptions) (*Report, error) {
	r := &Report{}
	err := lab.Run(o.Progress, func(l *lab.Lab) error {
		n, err := Build(ctx, l, o.Options)
		if err != nil {
			return err
		}
		r.Up = time.Since(n.began)
		if n.Page != "" {
			n.say("\n  the controller's page: %s, token %s\n", n.Page, n.Token)
		}
		if err := n.visit(ctx, r); err != nil {
			return err
		}
		if err := n.look(ctx, r); err != nil {
			return err
		}
		if o.Keep != nil {
			o.Keep(r, n.commands())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cdn: %w", err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			return r, ErrFailed
		}
	}
	return r, nil
}

func (r *Report) check(ok bool, said any, format string, args ...any) {
	c := Check{Text: fmt.Sprintf(format, args...), OK: ok}
	if !ok {
		c.Said = fmt.Sprint(said)
	}
	r.Checks = append(r.Checks, c)
}

var picture = regexp.MustCompile(`src="http://` + regexp.QuoteMeta(Site) + `(/[^"]+)"`)

// visit has both clients use all ways of redirection.
func (n *Network) visit(ctx context.Context, r *Report) error {
	content, err := n.content()
	if err != nil {
		return err
	}
	if err := n.gallery(ctx, r, content); err != nil {
		return err
	}
	if err := n.others(ctx, r, content); err != nil || n.Controller == nil {
		return err
	}
	if err := n.nearest(ctx, r); err != nil {
		return err
	}
	return n.reactive(ctx, r, content)
}

// nearest has both clients get pictures by the native mode: from the surrogate that is nearest by the controller's topology.
func (n *Network) nearest(ctx context.Context, r *Report) error {
	for _, client := range n.Clients {
		near, err := n.nearestTo(ctx, client)
		if err != nil {
			return err
		}
		// The client's zone is in force a moment after the controller has seen the client.
		err = lab.Poll(patience, func() error {
			for _, picture := range []string{"03", "04", "05", "06"} { // in turn, they would be of both surrogates
				_, one, err := n.get(ctx, r, client, "http://"+Site+"/images/"+picture+".png")
				if err != nil || one.Status != 200 || one.Surrogate != near {
					return fmt.Errorf("picture %s: %d from %s, %v", picture, one.Status, one.Surrogate, err)
				}
			}
			return nil
		})
		r.check(err == nil, err, "%s is handed over to %s, which the controller says is nearest", client.Name(), near)
	}
	return nil
}

// nearestTo is the surrogate with the fewest links between its forwarder and the client's, by the controller's topology; of several the first by name.
func (n *Network) nearestTo(ctx context.Context, client *lab.Host) (string, error) {
	t, err := n.Topology(ctx)
	if err != nil {
		return "", err
	}
	at := map[*lab.Host]string{} // by the forwarder's id
	for _, s := range n.stations {
		for _, h := range t.Hosts {
			if slices.Contains(h.Addresses, netip.MustParseAddr(s.address)) {
				at[s.host] = h.At.Switch
			}
		}
	}
	hops := map[string]int{at[client]: 0}
	for grown := true; grown; {
		grown = false
		for _, l := range t.Links {
			from, known := hops[l.From.Switch]
			if to, has := hops[l.To.Switch]; known && (!has || to > from+1) {
				hops[l.To.Switch], grown = from+1, true
			}
		}
	}
	best, fewest := "", 0
	for _, h := range n.Surrogates {
		if d, ok := hops[at[h]]; ok && at[h] != "" && (best == "" || d < fewest) {
			best, fewest = h.Name(), d
		}
	}
	if best == "" || at[client] == "" {
		return "", fmt.Errorf("the controller does not know %s, or no surrogate that it can reach", client.Name())
	}
	return best, nil
}

// reactive has both clients get pictures by handoffs that the controller makes.
func (n *Network) reactive(ctx context.Context, r *Report, content map[string]string) error {
	const path = "/images/02.png"
	err := n.Joined(ctx)
	r.check(err == nil, err, "the controller knows the surrogates, and the request router's legs to them")
	wrong := []string{}
	for _, client := range n.Clients {
		got, one, err := n.get(ctx, r, client, "http://"+Reactive+path)
		if err != nil {
			return err
		}
		if one.Status != 200 || got != content["content"+path] {
			wrong = append(wrong, fmt.Sprintf("%s: %d, %d bytes", client.Name(), one.Status, one.Bytes))
		}
	}
	r.check(len(wrong) == 0, wrong, "%d clients get a picture by the reactive mode, byte by byte", len(n.Clients))
	// A client may have its picture before the controller has heard of the surrogate's acknowledgement.
	err = lab.Poll(patience, func() error { return n.handedOver(ctx, r) })
	r.check(err == nil, fmt.Sprint(err, r.Handoffs), "the controller has handed over each of these sessions, and counts them")
	return nil
}

// handedOver asks the controller for its handoffs, which should be one for each client.
func (n *Network) handedOver(ctx context.Context, r *Report) error {
	r.Handoffs = nil
	if err := n.ask(ctx, "handoffs", &r.Handoffs); err != nil {
		return err
	}
	done := 0
	for _, h := range r.Handoffs {
		if h.Failure == "" {
			done++
		}
	}
	s, err := n.Counts(ctx)
	if err != nil {
		return err
	}
	counted := 0
	for _, of := range s.Reactive.Done {
		counted += int(of)
	}
	if done != len(n.Clients) || counted != done {
		return fmt.Errorf("%d of %d sessions are handed over, and %d are counted", done, len(n.Clients), counted)
	}
	return nil
}

// gallery has both clients look at the gallery as a browser does: names, page, pictures.
func (n *Network) gallery(ctx context.Context, r *Report, content map[string]string) error {
	before, err := n.handoffs(ctx)
	if err != nil {
		return err
	}
	for _, client := range n.Clients {
		at, err := n.Resolve(ctx, client, "cdn."+Domain)
		r.check(err == nil && at == VIP, fmt.Sprint(at, " ", err), "%s resolves cdn.%s to the request router", client.Name(), Domain)
		page, _, err := n.get(ctx, r, client, "http://www."+Domain+"/")
		if err != nil {
			return err
		}
		paths := picture.FindAllStringSubmatch(page, -1)
		r.check(len(paths) == len(content)-2, len(paths), "%s has the gallery of the origin, and its %d pictures are the CDN's", client.Name(), len(content)-2)
		wrong := []string{}
		for _, m := range paths {
			got, one, err := n.get(ctx, r, client, "http://"+Site+m[1])
			if err != nil {
				return err
			}
			if one.Status != 200 || got != content["content"+m[1]] || !strings.HasPrefix(one.Surrogate, "se") {
				wrong = append(wrong, fmt.Sprintf("%s: %d %s, %d bytes", m[1], one.Status, one.Surrogate, one.Bytes))
			}
		}
		r.check(len(wrong) == 0, wrong, "%s gets each picture through the CDN, byte by byte", client.Name())
	}
	want := uint64(len(n.Clients) * (len(content) - 2))
	err = lab.Poll(patience, func() error { // the router reads its kernel's counters now and then
		after, err := n.handoffs(ctx)
		if err == nil && after-before != want {
			err = fmt.Errorf("%d handoffs", after-before)
		}
		return err
	})
	r.check(err == nil, err, "each of %d requests was a handoff: none was proxied", want)
	return nil
}

// others are the paper's other two ways of redirection, and what the caches have.
func (n *Network) others(ctx context.Context, r *Report, content map[string]string) error {
	const path = "/images/01.png"
	for i, client := range n.Clients {
		want := []string{"10.11.0.11", "10.11.0.12"}[i]
		// The name server checks the health of surrogates from its start on, before the network knows the way.
		err := lab.Poll(patience, func() error {
			at, err := n.Resolve(ctx, client, "near.cdn."+Domain)
			if err == nil && at != want {
				err = fmt.Errorf("it is %s", at)
			}
			return err
		})
		r.check(err == nil, err, "%s resolves near.cdn.%s to its surrogate %s", client.Name(), Domain, want)
	}
	got, one, err := n.get(ctx, r, n.Clients[0], "http://"+Redirected+path)
	if err != nil {
		return err
	}
	r.check(one.Status == 200 && got == content["content"+path], one.Status, "a 302 leads to a surrogate by its own name")
	hits := 0
	for range 4 {
		if _, one, err = n.get(ctx, r, n.Clients[1], "http://"+Site+path); err != nil {
			return err
		}
		if one.Cache == "HIT" {
			hits++
		}
	}
	r.check(hits > 0, hits, "surrogates answer from their caches")
	why, err := n.router.RouterExplain(ctx, api.RouterQuestion{URL: "http://" + Site + path, Client: netip.MustParseAddr("10.11.0.101")})
	if err != nil {
		return fmt.Errorf("ask the router: %w", err)
	}
	r.Decision = why.Steps
	r.check(why.Where == "kernel" && len(why.Steps) > 0, why, "the kernel decides about requests: no process sees them")
	return nil
}

// look is what the controller has seen of it.
func (n *Network) look(ctx context.Context, r *Report) (err error) {
	if n.Controller == nil {
		return nil
	}
	if r.Topology, err = n.Topology(ctx); err != nil {
		return err
	}
	missing := []string{}
	for _, s := range n.stations {
		if !slices.ContainsFunc(r.Topology.Hosts, func(h api.ControllerHost) bool {
			return slices.Contains(h.Addresses, netip.MustParseAddr(s.address)) && h.At.Switch == fmt.Sprintf("%016x", s.at) && h.At.Port == uint32(s.port)
		}) {
			missing = append(missing, s.name)
		}
	}
	r.check(len(missing) == 0, missing, "the controller knows where each host is attached")
	return nil
}

// get fetches a URL as a client does that has no connection yet, and notes it in the report.
func (n *Network) get(ctx context.Context, r *Report, client *lab.Host, url string) (string, Request, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := peers.Curl(ctx, client, "-L", "-D", "-", url)
	if err != nil {
		return "", Request{}, fmt.Errorf("%s gets %s: %w", client.Name(), url, err)
	}
	body, cache := got.Body, ""
	for { // a head for each redirection, and one for the answer
		head, rest, ok := strings.Cut(body, "\r\n\r\n")
		if !ok || !strings.HasPrefix(head, "HTTP/") {
			break
		}
		body = rest
		for line := range strings.Lines(head) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "X-Cache-Status: "); ok {
				cache = value
			}
		}
	}
	one := Request{
		Client: client.Name(), URL: url, Surrogate: got.Surrogate, Cache: cache, Status: got.Status, Bytes: len(body), FirstByte: got.FirstByte,
	}
	r.Requests = append(r.Requests, one)
	return body, one, nil
}

// handoffs counts those of all surrogates.
func (n *Network) handoffs(ctx context.Context) (sum uint64, err error) {
	s, err := n.router.Router(ctx)
	for _, p := range s.Pools {
		for _, sg := range p.Surrogates {
			sum += sg.Handoffs
		}
	}
	return sum, err
}

// Text prints the report.
func (r *Report) Text(out io.Writer) {
	fmt.Fprintf(out, "The network was up after %.1f s.\n\n", r.Up.Seconds())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLIENT\tREQUEST\tSTATUS\tANSWERED BY\tCACHE\tBYTES\tFIRST BYTE\t")
	for _, q := range r.Requests {
		by := q.Surrogate
		if by == "" {
			by = "origin"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%.1f ms\t\n", q.Client, q.URL, q.Status, by, q.Cache, q.Bytes, float64(q.FirstByte.Microseconds())/1000)
	}
	_ = w.Flush() // the caller's writer has its own errors
	for _, h := range r.Handoffs {
		fmt.Fprintf(out, "\nhandoff %d: %s gets %s from %s, in %.2f ms\n", h.ID, h.Client, h.Request, h.Surrogate, float64(h.Took.Microseconds())/1000)
		for _, s := range h.Steps {
			fmt.Fprintf(out, "  %8.3f ms  %-10s -> %-10s  %s\n", float64(s.At.Microseconds())/1000, s.From, s.To, s.Label)
		}
	}
	fmt.Fprintf(out, "\nHow %s gets a surrogate:\n", Site)
	for _, step := range r.Decision {
		fmt.Fprintf(out, "  %s\n", step)
	}
	fmt.Fprintln(out)
	for _, c := range r.Checks {
		if c.OK {
			fmt.Fprintf(out, "ok    %s\n", c.Text)
		} else {
			fmt.Fprintf(out, "FAIL  %s: %s\n", c.Text, c.Said)
		}
	}
}

// commands are what can be tried while the network is kept.
func (n *Network) commands() []Command {
	within := func(h *lab.Host, command string) string {
		return fmt.Sprintf("ip netns exec %s %s", h.Netns(), command)
	}
	curl := fmt.Sprintf("curl -s -D - -o /dev/null --resolve %s:%s http://%s/images/07.png", Site, VIP, Site)
	dir := n.lab.Dir() + "/cdn/"
	return []Command{
		{within(n.Clients[0], curl), "the surrogate and its cache: see X-Surrogate and X-Cache-Status"},
		{within(n.Clients[0], "kdig @"+Services+" cdn."+Domain), "what a client resolves"},
		{n.o.Program + " router sessions --control " + dir + "router.sock", "the live sessions"},
		{n.o.Program + " router status --control " + dir + "router.sock", "the request router"},
		{n.o.Program + " forwarder status --control " + dir + "forwarders.sock", "the forwarders"},
		{n.o.Program + " nameserver status --control " + dir + "nameserver.sock", "the name server"},
	}
}
