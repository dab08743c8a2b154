// Package balance spreads the flows of a host's applications over all of its links, by an OpenFlow switch on the host (Al-Najjar, Layeghy,
// Portmann: Pushing SDN to the end-host, 2016). See docs/balance.md.
//
// One goroutine owns what is known of the links. From it the switch's tables and the host's side are computed anew whenever something has
// happened, and what differs is carried out; see [Balance.Run].
package balance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/api"
	"baton/balance/alive"
	"baton/balance/config"
	"baton/balance/controller"
	"baton/balance/host"
	"baton/balance/links"
	"baton/balance/policy"
	"baton/balance/tables"
	"baton/daemon"
	"baton/sockdiag"
)

// Options make a Balance. All are required, but for Switch and what follows it with Open vSwitch.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload

	// Switch is Baton's forwarder until ctx ends; what it has in the kernel goes on then, and the next one takes it over. Unload takes it away.
	Switch func(ctx context.Context, s Switch) error
	Unload func(name string) error
	// Pins is where the switch's memory of flows is, by its name.
	Pins func(name string) string
}

// Switch is what a balance wants of Baton's forwarder.
type Switch struct {
	Name    string
	Ports   []SwitchPort
	Flows   int    // that it remembers
	Channel string // unix socket that a controller listens on
	Control string // unix socket for the forwarder's own status
}

// SwitchPort is an interface of a switch.
type SwitchPort struct {
	Number    uint32
	Interface string
	Host      bool // it is the host's end: packets leave by it and come in for the host
}

// Balance is a running balance. Its methods may be called from any goroutine.
type Balance struct {
	o           Options
	log         *slog.Logger
	started     time.Time
	listeners   daemon.Listeners
	channel     net.Listener // that Baton's forwarder connects to; nil with Open vSwitch
	host        *host.Host
	sockets     *sockdiag.Conn
	controller  *controller.Controller
	watcher     *links.Watcher
	prober      *alive.Prober
	ended       chan struct{}   // closed when the loop has ended
	switchEnded chan error      // why the forwarder has, for who waits
	ctx         context.Context // of Run: what the loop has begun ends with it

	resets, reloads, reloadsFailed atomic.Uint64
	up                             atomic.Bool // the loop runs

	inbox inbox

	// Of the loop.
	state      state
	inForce    tables.State
	plan       host.Plan
	measuring  measuring
	lost       policy.Watch
	suspects   suspects
	looked     int
	missing    []string          // control groups
	reported   map[string]string // what has failed and was told
	loaded     time.Time         // when the configuration in force was
	accepting  errgroup.Group
	stopSwitch func() // waits for its end; nil: there is none

	mu            sync.Mutex // guards what is below
	status        api.BalanceStatus
	heard         map[string]time.Time // by the link's name: when a server has answered by it last
	switchControl string               // the forwarder's socket; "": there is none
}

// New takes the balance's name and opens its sockets. The host is as before until Run. The caller owes Close.
func New(o Options) (_ *Balance, err error) {
	now := time.Now()
	b := &Balance{
		o: o, log: o.Log, started: now, loaded: now, inbox: newInbox(), ended: make(chan struct{}), switchEnded: make(chan error),
		reported: make(map[string]string), lost: policy.Watch{Grace: policy.Grace},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.state, err = (state{}).configure(o.Config); err != nil {
		return nil, err
	}
	if b.host, err = host.Open(o.Config.Name, host.Options{}); err != nil {
		if errors.Is(err, host.ErrRunning) {
			return nil, fmt.Errorf("balance %s runs already: %w", o.Config.Name, err)
		}
		return nil, err
	}
	if b.sockets, err = sockdiag.Open(); err != nil {
		return nil, err
	}
	if err := b.sockets.Probe(); errors.Is(err, unix.EOPNOTSUPP) {
		b.log.Warn("connections whose link has gone are not ended: applications wait until they give up", "err", err)
	} else if err != nil {
		return nil, err
	}
	if b.listeners, err = daemon.Listen(o.Config.Control, o.Config.Metrics); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Config.File, err)
	}
	if o.Config.Datapath == config.Baton {
		if b.channel, err = api.Listen(b.switchConfig().Channel); err != nil {
			return nil, err
		}
	}
	b.controller = controller.New(controller.Options{Log: o.Log.With("part", "controller")})
	return b, nil
}

// Close gives up the name and the sockets of a balance that does not run, or has run.
func (b *Balance) Close() error {
	errs := []error{b.listeners.Close()}
	if b.channel != nil {
		if err := b.channel.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if b.sockets != nil {
		errs = append(errs, b.sockets.Close())
	}
	if b.host != nil {
		errs = append(errs, b.host.Leave())
	}
	return errors.Join(errs...)
}

// Restore takes away what a balance that was killed has left, and tells what that was. unload takes away a switch of that name.
func Restore(name string, unload func(name string) error) (undone []string, err error) {
	undone, err = host.Restore(name, host.Options{})
	if errors.Is(err, host.ErrRunning) {
		return nil, fmt.Errorf("balance %s is running: stop it instead: %w", name, err)
	}
	return undone, errors.Join(err, unload(name))
}

// switchWanted is Baton's forwarder for what is known.
func (b *Balance) switchConfig() Switch {
	cfg := b.state.cfg
	folder := filepath.Dir(cfg.Control)
	s := Switch{
		Name: cfg.Name, Flows: cfg.Limits.Flows,
		Channel: filepath.Join(folder, "balance-"+cfg.Name+".of"), Control: filepath.Join(folder, "forwarder-"+cfg.Name+".sock"),
		Ports: []SwitchPort{{Number: tables.InsidePort, Interface: cfg.Internal.Interface, Host: true}},
	}
	for i := range b.state.places {
		if p := &b.state.places[i]; !p.gone {
			s.Ports = append(s.Ports, SwitchPort{Number: uint32(tables.FirstLink + i), Interface: p.cfg.Interface})
		}
	}
	return s
}

// management is the socket of an Open vSwitch's bridge that OpenFlow is spoken at by the host's administrator.
func management(bridge string) string {
	folder := os.Getenv("OVS_RUNDIR")
	if folder == "" {
		folder = "/var/run/openvswitch"
	}
	return filepath.Join(folder, bridge+".mgmt")
}
