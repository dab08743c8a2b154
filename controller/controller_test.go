package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/api"
	"baton/controller/config"
	"baton/controller/neighbour"
	"baton/openflow"
	"baton/openflow/channel"
	"baton/packet"
)

// fixture is a controller with files and sockets of its own.
type fixture struct {
	t    *testing.T
	dir  string
	file string
	port int    // of the northbound
	more string // keys of listen, each after a comma
	*Controller
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	f.file = filepath.Join(f.dir, "c.yaml")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	f.write("")
	return f
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

// write writes the configuration with more lines.
func (f *fixture) write(lines string) {
	f.t.Helper()
	text := fmt.Sprintf(`name: noc1
listen: {openflow: ["unix:%s"], control: %s%s}
northbound: {listen: "127.0.0.1:%d", open: true}
store: {file: %s}
discovery: {interval: 100ms}
%s`, f.path("of"), f.path("control"), f.more, f.port, f.path("db"), lines)
	if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) start() {
	f.t.Helper()
	load := func() (*config.Config, error) { return config.Load(f.file) }
	cfg, err := load()
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := New(f.t.Context(), Options{Config: cfg, Version: "test", Log: slog.New(slog.DiscardHandler), Load: load})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Controller = c
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(f.stop)
}

// eventually waits until f returns "".
func eventually(t *testing.T, f func() string) {
	t.Helper()
	why := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if why = f(); why == "" {
			return
		}
	}
	t.Fatal(why)
}

// node is a switch with ports 1 and 2 that takes everything, and remembers the generation of its master.
type node struct {
	*channel.Conn
	mu         sync.Mutex
	generation uint64
}

func (f *fixture) connect(n *node) {
	f.t.Helper()
	conn, err := net.Dial("unix", f.path("of"))
	if err != nil {
		f.t.Fatal(err)
	}
	n.Conn = channel.Start(conn, channel.Options{})
	f.t.Cleanup(func() { n.Close() })
	go func() {
		for {
			r, err := n.Receive(context.Background())
			if err != nil {
				return
			}
			if answer := n.answer(r); answer != nil {
				_ = n.SendWait(context.Background(), r.XID, answer)
			}
		}
	}()
}

func (n *node) answer(r channel.Received) openflow.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m := r.Message.(type) {
	case *openflow.FeaturesRequest:
		return &openflow.FeaturesReply{DatapathID: 42}
	case *openflow.MultipartRequest:
		switch m.Body.(type) {
		case openflow.DescRequest:
			return &openflow.MultipartReply{Body: openflow.DescReply{Manufacturer: "Baton"}}
		case openflow.PortDescRequest:
			return &openflow.MultipartReply{Body: openflow.PortDescReply{{No: 1, Name: "p1"}, {No: 2, Name: "p2"}}}
		}
		return &openflow.MultipartReply{Body: openflow.FlowStatsReply{}}
	case *openflow.RoleRequest:
		if m.Role == openflow.RoleNochange {
			return &openflow.RoleReply{Role: openflow.RoleEqual, Generation: n.generation}
		}
		if int64(m.Generation-n.generation) < 0 {
			return (&openflow.Fault{Code: openflow.RoleRequestFailedStale}).Answer(r.Raw)
		}
		n.generation = m.Generation
		return &openflow.RoleReply{Role: m.Role, Generation: m.Generation}
	case *openflow.BarrierRequest:
		return &openflow.BarrierReply{}
	}
	return nil
}

// TestController runs a controller with a switch and a host: status, topology, northbound, reload, and what a second run finds of the first.
func TestController(t *testing.T) {
	f := newFixture(t)
	f.start()
	n := &node{}
	f.connect(n)
	role := func() string {
		s, _ := f.Status()
		if len(s.Switches) != 1 || !s.Switches[0].Up || s.Switches[0].Role != "master" || !s.Switches[0].Core {
			return fmt.Sprintf("switches %+v", s.Switches)
		}
		return ""
	}
	eventually(t, role)
	mac, address := packet.MAC{2, 0, 0, 0, 0, 7}, netip.MustParseAddr("10.0.0.7")
	asks := neighbour.Build(neighbour.Message{MAC: mac, Address: address, Target: netip.MustParseAddr("10.0.0.8")})
	eventually(t, func() string { // not at once: the port must have settled
		_ = n.Send(0, &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: uint16(len(asks)), Match: openflow.Match{}.Port(1), Data: asks})
		if h := f.Topology().Hosts; len(h) != 1 || h[0].MAC != mac.String() || h[0].At != (api.ControllerPoint{Switch: "000000000000002a", Port: 1}) {
			return fmt.Sprintf("hosts %+v", h)
		}
		return ""
	})
	response, err := http.Get("http://" + f.web.Addr().String() + "/v1/topology")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var topology api.ControllerTopology
	if err := json.NewDecoder(response.Body).Decode(&topology); err != nil || len(topology.Hosts) != 1 || len(topology.Switches) != 1 {
		t.Errorf("northbound: %+v, %v", topology, err)
	}
	client := api.NewClient(f.path("control"))
	defer client.Close()
	if s, err := client.Controller(t.Context()); err != nil || s.Hosts != 1 || s.Name != "noc1" || !s.Store.Master {
		t.Errorf("status by the socket: %+v, %v", s, err)
	}

	f.write("switches: [{id: 1}, {id: 1}]")
	if _, err := f.Reload(); !errors.Is(err, api.ErrConflict) {
		t.Errorf("a reload of mistakes: %v", err)
	}
	f.write("paths: {spread: pair}")
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), "paths.spread: takes effect only after a restart") {
		t.Errorf("a reload of what is fixed: %v", err)
	}
	f.write("switches: [{id: 42, name: access}]\npaths: {cache: false}")
	if r, err := f.Reload(); err != nil || fmt.Sprint(r.Changed) != "[paths.cache switches]" {
		t.Errorf("%+v, %v", r, err)
	}
	if s, _ := f.Status(); s.Reloads != 1 || s.ReloadsFailed != 2 || s.Paths.Cache {
		t.Errorf("%+v", s)
	}

	f.stop()
	<-n.Done()
	f.start()
	again := &node{generation: n.generation}
	f.connect(again)
	eventually(t, func() string {
		if h := f.Topology().Hosts; len(h) != 1 || h[0].MAC != mac.String() || len(h[0].Addresses) != 1 || h[0].Addresses[0] != address {
			return fmt.Sprintf("the next controller knows %+v", h)
		}
		return ""
	})
	if s, _ := f.Status(); s.Switches[0].Name != "access" || s.Store.Generation <= 1 {
		t.Errorf("%+v", s)
	}
}

// TestLostStore: the store is lost, and a switch has seen a greater generation: the controller goes past it and is the master.
func TestLostStore(t *testing.T) {
	f := newFixture(t)
	f.start()
	n := &node{generation: 1000}
	f.connect(n)
	eventually(t, func() string {
		s, _ := f.Status()
		if len(s.Switches) != 1 || s.Switches[0].Role != "master" || s.Store.Generation <= 1000 || s.Refused["stale"] == 0 {
			return fmt.Sprintf("%+v, generation %d", s.Switches, s.Store.Generation)
		}
		return ""
	})
}
