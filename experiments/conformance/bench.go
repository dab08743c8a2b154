package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"baton/lab"
	"baton/lab/peers"
)

// Target is a switch under test.
type Target struct {
	Name string
	Is   string // for the report
	// forget: the Open vSwitch of the bench forgets the flows that it has cached before each case. The tester's own bridge needs it
	// too: its flow entries are new in each case, and what it has cached of the old ones sends their packets nowhere.
	forget bool
	// start brings the target up on a bench, with the host's interfaces t1 to t3 as its ports 1 to 3, datapath 1, and the tester as
	// its controller. It returns the process that is the target and its version.
	start func(ctx context.Context, b *bench) (*lab.Process, string, error)
}

// Targets are the switches that can be put to the test; the first two are by default.
func Targets() []Target {
	return []Target{
		{"ovs", "Open vSwitch's userspace datapath, made to forget its cached flows before each case", true, startOVS},
		{"baton", "`baton forwarder`", true, startForwarder},
		{"ovs-defaults", "Open vSwitch's userspace datapath as it comes", false, startOVS},
	}
}

// bench is a host on which the target and the tester's switch are joined by three cables.
type bench struct {
	host    *lab.Host
	tester  *tester
	control *peers.VSwitch // the tester's switch, on e1 to e3
	target  *lab.Process
	version string // of the target
	program string // baton
}

// newBenches builds n benches and waits until the switches of all have connected to their testers. It belongs to the goroutine of
// the lab. The benches' testers are the caller's to close, with an error too.
func newBenches(ctx context.Context, l *lab.Lab, n int, t Target, suite *Suite, o Options) ([]*bench, error) {
	var benches []*bench
	for i := range n {
		b := newBench(l, i+1, o.Program)
		var err error
		if b.tester, err = startTester(b.host, suite, o.Unpatched); err != nil {
			return benches, err
		}
		benches = append(benches, b)
	}
	for _, b := range benches {
		if err := b.tester.listens(ctx); err != nil { // else the switches would wait a second for their next attempt
			return benches, err
		}
		b.control = peers.OpenVSwitch(b.host, peers.OpenVSwitchOptions{Bridge: "s2", Ports: []string{"e1", "e2", "e3"}, DatapathID: 2,
			FailMode: "secure", Controller: "tcp:127.0.0.1:" + port, NoTSO: true})
		if t.forget {
			b.tester.forget = filepath.Join(b.control.Dir, "ovs-vswitchd.ctl")
		}
		var err error
		if b.target, b.version, err = t.start(ctx, b); err != nil {
			return benches, fmt.Errorf("start %s: %w", t.Name, err)
		}
	}
	for _, b := range benches {
		ctx, stop := b.whileTargetLives(ctx)
		err := b.tester.joined(ctx)
		stop()
		if err != nil {
			return benches, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return benches, nil
}

// newBench builds the host and its cables.
func newBench(l *lab.Lab, number int, program string) *bench {
	h := l.Host(fmt.Sprintf("bench%d", number))
	// The host says nothing by itself: every frame on a cable is the tester's.
	h.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
	h.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
	for _, n := range []string{"1", "2", "3"} {
		l.Link(lab.End{Host: h, Name: "t" + n}, lab.End{Host: h, Name: "e" + n}, lab.LinkOptions{NoOffloads: true})
	}
	return &bench{host: h, program: program}
}

// whileTargetLives returns a context that ends with the target, too; its cause is what the target said then.
func (b *bench) whileTargetLives(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-b.target.Done():
			cancel(fmt.Errorf("the target has ended (%v):\n%s", b.target.Wait(ctx), strings.TrimSpace(b.target.Log())))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// startOVS makes the target a second bridge of the tester's Open vSwitch.
func startOVS(ctx context.Context, b *bench) (*lab.Process, string, error) {
	args := []string{"add-br", "s1", "--", "set", "bridge", "s1", "datapath_type=netdev", "protocols=OpenFlow13",
		"other_config:datapath-id=0000000000000001", "--", "set-fail-mode", "s1", "secure"}
	for _, n := range []string{"1", "2", "3"} {
		args = append(args, "--", "add-port", "s1", "t"+n, "--", "set", "interface", "t"+n, "ofport_request="+n)
	}
	args = append(args, "--", "set-controller", "s1", "tcp:127.0.0.1:"+port, "--", "set", "controller", "s1", "connection-mode=out-of-band")
	_, err := b.control.Vsctl(ctx, args...)
	return b.control.Process, b.control.Version, err
}

// startForwarder starts `baton forwarder`.
func startForwarder(ctx context.Context, b *bench) (*lab.Process, string, error) {
	const config = `name: %s
datapath_id: 0x1
ports: {1: t1, 2: t2, 3: t3}
controllers: [tcp:127.0.0.1:%s]
fail_mode: secure
control: %s.sock
`
	path := filepath.Join(b.host.Lab().Dir(), b.host.Name())
	file := path + ".yaml"
	if err := os.WriteFile(file, fmt.Appendf(nil, config, b.host.Name(), port, path), 0o644); err != nil {
		return nil, "", err
	}
	version, err := b.host.Exec(ctx, b.program, "--version") // "baton version dev"
	if err != nil {
		return nil, "", err
	}
	p, err := b.host.Start(lab.Program{Path: b.program, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"})
	return p, strings.Replace(strings.TrimSpace(version), " version ", "/", 1), err
}
