package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/lab"
)

// OpenVSwitchOptions describe an Open vSwitch with one bridge. The zero value is a learning switch without ports.
type OpenVSwitchOptions struct {
	Bridge     string   // default: br0; the interface of that name is the switch's own port
	Ports      []string // interfaces of the host, without addresses: OpenFlow ports 1, 2, …
	Controller string   // "tcp:10.0.0.1:6653", reached by interfaces that are no ports; empty: none
	FailMode   string   // without its controller "standalone", the default, learns; "secure" follows its flow entries only
	OpenFlow   string   // default: OpenFlow13
	DatapathID uint64   // default: the switch's choice

	// NoTSO leaves checksums and segments to others, as Open vSwitch does by default. A host on a link with offloads
	// sends frames that lack both, so that ping passes and TCP does not: such links need lab.LinkOptions.NoOffloads.
	// iperf3 over veth here: TSO and offloads 3.1 Gbit/s, TSO alone 0.5, offloads alone nothing, neither 1.2.
	NoTSO bool
}

// VSwitch is a running Open vSwitch with the userspace datapath, whose files and sockets are its own.
type VSwitch struct {
	*lab.Process // ovs-vswitchd, which forwards
	Database     *lab.Process
	Bridge       string
	Version      string
	Dir          string

	openflow string
}

// schema is that of Debian's openvswitch-switch.
const schema = "/usr/share/openvswitch/vswitch.ovsschema"

// OpenVSwitch starts a switch on the host and returns when its ports are open.
func OpenVSwitch(h *lab.Host, o OpenVSwitchOptions) *VSwitch {
	t := h.Lab().T()
	t.Helper()
	h.Lab().Need("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
	s := &VSwitch{Bridge: orDefault(o.Bridge, "br0"), openflow: orDefault(o.OpenFlow, "OpenFlow13")}
	ctx, cancel := context.WithTimeout(context.Background(), readiness)
	defer cancel()
	err := s.start(ctx, h, o)
	if err == nil {
		err = s.configure(ctx, o)
	}
	if err != nil {
		t.Fatalf("peers: Open vSwitch on %s: %v\n%s", h.Name(), err, s.logs())
	}
	return s
}

func (s *VSwitch) start(ctx context.Context, h *lab.Host, o OpenVSwitchOptions) (err error) {
	if s.Version, err = Version("ovs-vswitchd"); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp(h.Lab().Dir(), "ovs-"); err != nil {
		return err
	}
	database := filepath.Join(s.Dir, "conf.db")
	if _, err := h.Exec(ctx, "ovsdb-tool", "create", database, schema); err != nil {
		return err
	}
	start := func(program string, args ...string) (*lab.Process, error) {
		args = append(args, "-vconsole:info", "-vsyslog:off", "-vfile:off", "--unixctl="+s.socket(program))
		p, err := h.Start(lab.Program{Path: program, Args: args, Dir: s.Dir, Env: s.environment()})
		if err != nil {
			return nil, err
		}
		return p, until(p, func() error {
			_, err := os.Stat(s.socket(program))
			return err
		})
	}
	if s.Database, err = start("ovsdb-server", database, "--remote=p"+s.remote()); err != nil {
		return err
	}
	tso := fmt.Sprintf("other_config:userspace-tso-enable=%v", !o.NoTSO) // read once, by a switch that starts
	if _, err := s.Vsctl(ctx, "--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".", tso); err != nil {
		return err
	}
	s.Process, err = start("ovs-vswitchd", s.remote())
	return err
}

func (s *VSwitch) configure(ctx context.Context, o OpenVSwitchOptions) error {
	args := []string{"add-br", s.Bridge, "--", "set", "bridge", s.Bridge, "datapath_type=netdev", "protocols=" + s.openflow}
	if o.DatapathID != 0 {
		args = append(args, fmt.Sprintf("other_config:datapath-id=%016x", o.DatapathID))
	}
	if o.FailMode != "" {
		args = append(args, "--", "set-fail-mode", s.Bridge, o.FailMode)
	}
	for i, port := range o.Ports {
		args = append(args, "--", "add-port", s.Bridge, port, "--", "set", "interface", port, fmt.Sprintf("ofport_request=%d", i+1))
	}
	if o.Controller != "" {
		args = append(args, "--", "set-controller", s.Bridge, o.Controller, "--", "set", "controller", s.Bridge,
			"connection-mode=out-of-band")
	}
	if _, err := s.Vsctl(ctx, args...); err != nil {
		return err
	}
	// The database has taken ports that the switch may not have been able to open.
	out, err := s.Vsctl(ctx, "--bare", "--columns=name,error", "find", "interface", "error!=[]")
	if faults := strings.Fields(out); err == nil && len(faults) > 0 {
		return fmt.Errorf("port: %s", strings.Join(faults, " "))
	}
	return err
}

func (s *VSwitch) environment() []string {
	return []string{"OVS_RUNDIR=" + s.Dir, "OVS_DBDIR=" + s.Dir, "OVS_LOGDIR=" + s.Dir}
}

func (s *VSwitch) socket(program string) string { return filepath.Join(s.Dir, program+".ctl") }
func (s *VSwitch) remote() string               { return "unix:" + filepath.Join(s.Dir, "db.sock") }

// Vsctl runs ovs-vsctl, which returns when the switch has done what the command asks of it.
func (s *VSwitch) Vsctl(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, "ovs-vsctl", append([]string{"--db=" + s.remote()}, args...)...)
}

// Ofctl runs an ovs-ofctl command on the bridge, in the switch's version of OpenFlow: Ofctl(ctx, "add-flow", "…").
func (s *VSwitch) Ofctl(ctx context.Context, command string, args ...string) (string, error) {
	return s.run(ctx, "ovs-ofctl", append([]string{"-O", s.openflow, command, s.Bridge}, args...)...)
}

// Appctl runs a command of ovs-vswitchd's own: Appctl(ctx, "dpctl/dump-flows").
func (s *VSwitch) Appctl(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, "ovs-appctl", append([]string{"-t", s.socket("ovs-vswitchd")}, args...)...)
}

func (s *VSwitch) run(ctx context.Context, program string, args ...string) (string, error) {
	p, err := s.Database.Host().Start(lab.Program{Path: program, Args: args, Env: s.environment(), Unlogged: true})
	if err != nil {
		return "", err
	}
	if err := wait(ctx, p); err != nil {
		return p.Stdout(), fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(p.Stderr()))
	}
	return p.Stdout(), nil
}

// Stop ends the switch in good order: its own port goes, and its sockets.
func (s *VSwitch) Stop(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_, err := s.Appctl(ctx, "exit", "--cleanup")
	if err == nil {
		_ = s.Wait(ctx) // Stop says what is wrong if it does not end
	}
	return errors.Join(err, s.Process.Stop(grace), s.Database.Stop(grace))
}

func (s *VSwitch) logs() string {
	text := ""
	for _, p := range []*lab.Process{s.Database, s.Process} {
		if p != nil {
			text += p.Log()
		}
	}
	return text
}
