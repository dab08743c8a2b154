// Package nameserver is an authoritative name server, which also directs clients to surrogates by the addresses that it answers: the first of the ways of
// request routing that the paper describes (section 2.2.1). See docs/nameserver.md.
package nameserver

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/daemon"
	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/follow"
	"baton/nameserver/metrics"
	"baton/nameserver/route"
	"baton/nameserver/serve"
)

// Options make a Nameserver.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload
}

// Nameserver is a running name server. Its methods may be called from any goroutine.
type Nameserver struct {
	o         Options
	log       *slog.Logger
	started   time.Time
	server    *answer.Server
	sockets   *serve.Sockets
	listeners daemon.Listeners
	routes    *route.Table
	follower  *follow.Follower // nil: no controller

	reloads, reloadsFailed atomic.Uint64

	mu     sync.Mutex // guards what is below
	cfg    *config.Config
	loaded time.Time
	zones  map[string]*loaded
}

// New reads the zones and opens the sockets. Run starts it; Close is for one that is not run.
func New(ctx context.Context, o Options) (*Nameserver, error) {
	cfg := o.Config
	n := &Nameserver{o: o, log: o.Log, started: time.Now(), server: answer.New(Answering(cfg))}
	var err error
	n.follower = follow.New(cfg.Controller, o.Log)
	if n.routes, err = route.New(cfg, n.follower.View, o.Log); err != nil {
		return nil, err
	}
	zones, _, err := n.read(cfg)
	if err != nil {
		return nil, err
	}
	if err := n.use(cfg, zones); err != nil {
		return nil, err
	}
	if n.listeners, err = daemon.Listen(cfg.Control, cfg.Metrics); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	n.sockets, err = serve.Listen(ctx, n.server, serve.Options{
		Addresses: cfg.Listen, Sockets: cfg.Sockets, Size: cfg.UDP.Size, Buffer: cfg.UDP.Buffer,
		TCP: serve.TCP{Connections: cfg.TCP.Connections, PerNetwork: cfg.TCP.PerNetwork, Idle: cfg.TCP.Idle},
	}, o.Log)
	if err != nil {
		_ = n.listeners.Close()
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	return n, nil
}

// Answering is how a configuration has queries answered.
func Answering(cfg *config.Config) answer.Options {
	o := answer.Options{Size: cfg.UDP.Size, NSID: cfg.Name, Subnet: cfg.Subnet}
	if !cfg.Cookies.Off {
		o.Cookies = answer.NewCookies(cfg.Cookies.Secrets...)
	}
	if l := cfg.Limits; l.Rate > 0 {
		o.Limits = answer.NewLimits(l.Rate, l.Slip, l.Prefix4, l.Prefix6, l.Exempt)
	}
	return o
}

// use serves zones from now on.
func (n *Nameserver) use(cfg *config.Config, zones map[string]*loaded) error {
	all := make([]*answer.Zone, 0, len(zones))
	routes := n.routes.Routes()
	for _, z := range zones {
		z.zone.Routes = routes
		all = append(all, z.zone)
	}
	tables, err := answer.Compile(all)
	if err != nil {
		return err
	}
	n.server.Set(tables)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg, n.zones, n.loaded = cfg, zones, time.Now()
	return nil
}

// Run answers until the context ends.
func (n *Nameserver) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { n.sockets.Serve(ctx); return nil })
	running.Go(func() error { n.routes.Run(ctx); return nil })
	running.Go(func() error { n.follower.Run(ctx, n.routes.Refresh); return nil })
	running.Go(func() error {
		n.listeners.Serve(ctx, n.backend(), metrics.Handler(n.o.Version, n.Status), n.log)
		return nil
	})
	n.log.Info("ready", "listen", n.sockets.Addresses(), "zones", len(n.o.Config.Zones))
	return running.Wait()
}

// fixed are the settings that only a restart changes.
func fixed(old, next *config.Config) (keys []string) {
	for key, same := range map[string]bool{
		"control": old.Control == next.Control, "metrics": old.Metrics == next.Metrics, "listen": reflect.DeepEqual(old.Listen, next.Listen),
		"sockets": old.Sockets == next.Sockets, "udp": old.UDP == next.UDP, "tcp": old.TCP == next.TCP, "name": old.Name == next.Name,
		"cookies": reflect.DeepEqual(old.Cookies, next.Cookies), "limits": reflect.DeepEqual(old.Limits, next.Limits),
		"client_subnet": old.Subnet == next.Subnet, "controller": old.Controller.Same(next.Controller),
	} {
		if !same {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Reload reads the configuration and all zones again. Queries are answered all the while, from the old tables or the new. A zone whose file has mistakes
// keeps what it had. The error wraps api.ErrConflict; the old configuration stays in force then.
func (n *Nameserver) Reload() (api.ReloadResult, error) {
	result, err := n.reload()
	if err != nil {
		n.reloadsFailed.Add(1)
		n.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	n.reloads.Add(1)
	n.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
	return result, nil
}

func (n *Nameserver) reload() (api.ReloadResult, error) {
	n.mu.Lock()
	old := n.cfg
	n.mu.Unlock()
	next, err := n.o.Load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	if err := daemon.RestartError(next.File, fixed(old, next)...); err != nil {
		return api.ReloadResult{}, err
	}
	zones, changed, err := n.read(next)
	if err != nil {
		return api.ReloadResult{}, err
	}
	services, err := n.routes.Reload(next)
	if err != nil {
		return api.ReloadResult{}, err
	}
	if err := n.use(next, zones); err != nil {
		return api.ReloadResult{}, err
	}
	for _, z := range zones {
		if z.failure != nil {
			n.log.Error("a zone keeps its old content", "zone", z.cfg.Name, "err", z.failure)
		}
	}
	return api.ReloadResult{Config: next.File, Changed: append(changed, services...)}, nil
}
