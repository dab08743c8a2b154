package controllers

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/packet"
)

// TestOpenVSwitchTalks: ovs-ofctl, over a unix socket and over TLS with its own implementation of that, gets what it asks for.
func TestOpenVSwitchTalks(t *testing.T) {
	ofctl, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		t.Skip("ovs-ofctl is not installed (make deps)")
	}
	ours, theirs := newAuthority(t), newAuthority(t)
	path := filepath.Join(t.TempDir(), "forwarder")
	s := newStage(t, func(c *config.Config) {
		c.TLS = ours.files(t, "forwarder", ours)
		c.Listen = []config.Listener{{Listen: config.Endpoint{Method: "unix", Address: path}, Peers: peers()}}
	})
	s.handle = tiny
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{endpoint: config.Endpoint{Method: "tls", Address: l.Addr().String()}, listens: true, peers: peers()}
	s.tasks.Go(func() { s.accept(t.Context(), o, l) })

	secured := func(a *authority) string {
		f := a.files(t, "ofctl", ours)
		return "--certificate=" + f.Certificate + " --private-key=" + f.Key + " --ca-cert=" + f.Authority
	}
	unix, tls := "unix:"+path, "ssl:"+l.Addr().String()
	tests := []struct {
		name, args, want string
		fails            bool
	}{
		{"show", "show " + unix, "dpid:0000000000000042 n_tables:3 1(one): addr:02:00:00:00:00:01 frags=normal miss_send_len=128", false},
		{"probe", "probe " + unix, "", false},
		{"ping", "ping " + unix + " 1000", "1000 bytes from unix:" + path, false},
		{"change of fragments", "set-frags " + unix + " drop", "", false},
		{"fragments", "get-frags " + unix, "drop", false},
		{"flow entry", "add-flow " + unix + " tcp,actions=output:1", "", false},
		{"flow entry that is refused", "add-flow " + unix + " table=9,actions=drop", "OFPFMFC_TABLE_FULL", true},
		{"bundle", "--bundle add-flow " + unix + " tcp,actions=output:1", "OFPBRC_BAD_VENDOR", true},
		{"TLS", secured(ours) + " show " + tls, "dpid:0000000000000042", false},
		{"TLS of another authority", secured(theirs) + " show " + tls, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := exec.Command(ofctl, strings.Fields("-O OpenFlow13 --timeout=20 "+tt.args)...).CombinedOutput()
			if (err != nil) != tt.fails || !tt.fails && strings.Contains(string(out), "***") {
				t.Fatalf("%v:\n%s", err, out)
			}
			inOrder(t, string(out), tt.want)
		})
	}
	t.Run("monitor", func(t *testing.T) { monitor(t, s, ofctl, unix) })
}

// inOrder fails unless the words are in the text, one behind the other.
func inOrder(t *testing.T, text, words string) {
	t.Helper()
	rest := text
	for word := range strings.FieldsSeq(words) {
		_, after, found := strings.Cut(rest, word)
		if !found {
			t.Fatalf("no %q in its place:\n%s", word, text)
		}
		rest = after
	}
}

// tiny is as much of a forwarder as ovs-ofctl asks for.
func tiny(c *Channel, xid uint32, m openflow.Message, raw []byte) {
	switch m := m.(type) {
	case *openflow.MultipartRequest:
		var body openflow.MultipartBody = openflow.PortDescReply{
			{No: 1, MAC: packet.MAC{2, 0, 0, 0, 0, 1}, Name: "one", State: openflow.PortStateLive},
		}
		if m.Body.Multipart() == openflow.MultipartTableFeatures {
			body = openflow.TableFeaturesBody{{Name: "first", MaxEntries: 88, Properties: []openflow.TableProp{
				{Kind: openflow.PropInstructions}, {Kind: openflow.PropNextTables}, {Kind: openflow.PropWriteActions},
				{Kind: openflow.PropApplyActions}, {Kind: openflow.PropMatch}, {Kind: openflow.PropWildcards},
				{Kind: openflow.PropWriteSetfield}, {Kind: openflow.PropApplySetfield},
			}}}
		}
		c.Reply(xid, &openflow.MultipartReply{Body: body})
	case *openflow.FlowMod:
		if m.Table == 9 {
			c.Refuse(xid, raw, &openflow.Fault{Code: openflow.FlowModFailedTableFull})
		}
	case *openflow.BundleControl:
		c.Refuse(xid, raw, &openflow.Fault{Code: openflow.BadRequestBadExperimenter})
	}
}

// monitor shows what nobody has asked for.
func monitor(t *testing.T, s *stage, ofctl, unix string) {
	cmd := exec.CommandContext(within(t), ofctl, "-O", "OpenFlow13", "monitor", unix, "65535")
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+t.TempDir()) // for its control socket
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	done := make(chan struct{})
	defer close(done)
	go func() { // until it listens: it drops what comes while it waits for an answer
		for {
			s.PacketIn(&openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: 60, Reason: openflow.ReasonAction, Table: 2, Cookie: 3,
				Match: openflow.Match{}.Port(1), Data: make([]byte, 60)}, openflow.MaxLenNoBuffer)
			s.PortStatus(&openflow.PortStatus{Reason: openflow.PortModify, Port: openflow.Port{No: 1, Name: "one"}})
			s.FlowRemoved(&openflow.FlowRemoved{Reason: openflow.RemovedIdleTimeout, Cookie: 9})
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	var text strings.Builder
	want := "OFPT_PACKET_IN table_id=2 cookie=0x3 total_len=60 in_port=1 (via action) OFPT_PORT_STATUS MOD: 1(one) " +
		"OFPT_FLOW_REMOVED reason=idle cookie:0x9"
	for lines := bufio.NewScanner(out); strings.Count(text.String(), "reason=idle") < 2 && lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
	}
	inOrder(t, text.String(), want)
}
