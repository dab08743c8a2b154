// Package balance spreads the flows of a host's applications over all of its links, using an OpenFlow switch on the host (Al-Najjar,
// Layeghy, Portmann: Pushing SDN to the end-host, 2016). See docs/balance.md.
//
// One goroutine owns the state of the links. After each event it computes the switch's tables and the host's side anew and applies the
// differences; see [Balance.Run].
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
	"baton/datapath"
	"baton/sockdiag"
)

// Options of a Balance. All are required, except that Switch and the following are not used with Open vSwitch.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload

	// Switch runs Baton's forwarder until ctx ends; its kernel state stays, and the next one takes it over. Unload removes that state.
	Switch func(ctx context.Context, s Switch) error
	Unload func(name string) error
	// Pins returns the folder of the switch's binding table, by its name.
	Pins func(name string) string
}

// Switch configures Baton's forwarder for a balance.
type Switch struct {
	Name    string
	Ports   []SwitchPort
	Flows   int    // most that it remembers
	Channel string // unix socket of the controller
	Control string // unix socket for the forwarder's own status
}

// SwitchPort is an interface of a switch.
type SwitchPort struct {
	Number    uint32
	Interface string
	Host      bool // the host's end: packets leave the host by it and enter the host from it
}

// Balance is a running balance. Its methods may be called from any goroutine.
type Balance struct {
	o           Options
	log         *slog.Logger
	started     time.Time
	listeners   daemon.Listeners
	channel     net.Listener // where Baton's forwarder connects; nil with Open vSwitch
	host        *host.Host
	sockets     *sockdiag.Conn
	controller  *controller.Controller
	watcher     *links.Watcher
	prober      *alive.Prober
	ended       chan struct{}   // closed when the loop has ended
	switchEnded chan error      // why the forwarder ended, while start waits
	ctx         context.Context // of Run, for everything that the loop starts

	resets, reloads, reloadsFailed atomic.Uint64
	up                             atomic.Bool // the loop runs

	inbox inbox

	// Owned by the loop.
	state      state
	inForce    tables.State
	plan       host.Plan
	measuring  measuring
	lost       policy.Watch
	suspects   suspects
	looked     int
	missing    []string          // control groups that do not exist
	reported   map[string]string // last logged failure, by what failed
	loaded     time.Time         // when the current configuration was loaded
	accepting  errgroup.Group
	stopSwitch func() // stops the switch and waits for its end; nil: there is none

	mu            sync.Mutex // guards what is below
	status        api.BalanceStatus
	heard         map[string]time.Time // by link name: when a server last answered over it
	switchControl string               // the forwarder's socket; "": none
}

// New takes the balance's name and opens its sockets. It does not change the host before Run. The caller owes Close.
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
	if err := datapath.Require("balance", Needs(o.Config)); err != nil { // before touching the host
		return nil, err
	}
	if b.state, err = (state{}).configure(o.Config); err != nil {
		return nil, err
	}
	if b.host, err = host.Open(o.Config.Name, host.Options{}); err != nil {
		return nil, err
	}
	if b.sockets, err = sockdiag.Open(); err != nil {
		return nil, err
	}
	if err := b.sockets.Probe(); errors.Is(err, unix.EOPNOTSUPP) {
		b.log.Warn("connections that lose their link are not ended: applications wait for their own timeouts", "err", err)
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

// Close gives up the name and the sockets of a balance that has not run or has ended.
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

// Restore removes what a killed balance has left, and lists it. unload removes the switch with that name.
func Restore(name string, unload func(name string) error) (undone []string, err error) {
	undone, err = host.Restore(name, host.Options{})
	if errors.Is(err, host.ErrRunning) {
		return nil, fmt.Errorf("balance %s is running: stop it instead: %w", name, err)
	}
	return undone, errors.Join(err, unload(name))
}

// switchConfig returns the configuration of Baton's forwarder for the current state.
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

// management returns the administrator's OpenFlow socket of an Open vSwitch bridge.
func management(bridge string) string {
	folder := os.Getenv("OVS_RUNDIR")
	if folder == "" {
		folder = "/var/run/openvswitch"
	}
	return filepath.Join(folder, bridge+".mgmt")
}
