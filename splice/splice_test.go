package splice

import (
	"errors"
	"net/netip"
	"testing"

	"baton/packet"
)

// The paper's notation (section 3.4): initial sequence numbers and request sizes, from which a leg's numbers follow.
func TestNewFollowsEquations1To4(t *testing.T) {
	tests := []struct {
		name                         string
		srs, scr, rrs, rcr, src, ssr uint32
		sincCS, sincSC               uint32
	}{
		{"small", 5000, 1000, 100, 100, 300, 700, 4000, 0xfffffe70},
		{"nothing acknowledged yet", 5000, 1000, 0, 0, 300, 700, 4000, 0xfffffe70},
		{"the router's request is longer", 5000, 1000, 120, 100, 300, 700, 4020, 0xfffffe70},
		{"the router's request is shorter", 5000, 1000, 90, 100, 300, 700, 3990, 0xfffffe70},
		{"across the wrap", 0x10, 0xfffffff0, 0, 0, 0xfffffff0, 0x10, 0x20, 0xffffffe0},
		{"equal", 9, 9, 9, 9, 9, 9, 0, 0},
		{"half the circle", 0x80000000, 0, 0, 0, 0, 0x80000000, 0x80000000, 0x80000000},
		{"the largest", 0xffffffff, 0, 0, 0, 0xffffffff, 0, 0xffffffff, 0xffffffff},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, server := families[0].legs()
			client.RcvNxt, client.SndNxt = packet.Seq(tt.scr+tt.rcr), packet.Seq(tt.src)
			server.SndNxt, server.RcvNxt = packet.Seq(tt.srs+tt.rrs), packet.Seq(tt.ssr)
			s := New(client, server)
			for _, n := range []struct {
				name      string
				got, want uint32
			}{
				{"(1) Sinc_cs", s.ToServer.DeltaSeq, tt.sincCS},
				{"(2) Ainc_sc", s.ToClient.DeltaAck, -tt.sincCS},
				{"(3) Sinc_sc", s.ToClient.DeltaSeq, tt.sincSC},
				{"(4) Ainc_cs", s.ToServer.DeltaAck, -tt.sincSC},
			} {
				if n.got != n.want {
					t.Errorf("%s: got %#x, want %#x", n.name, n.got, n.want)
				}
			}
		})
	}
}

func TestNewTuplesAndMACs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		s := f.splice()
		if want := (Tuple{f.client, f.vip}); s.ToServer.Match != want {
			t.Errorf("ToServer.Match: got %v, want %v", s.ToServer.Match, want)
		}
		if want := (Tuple{f.router, f.surrogate}); s.ToServer.Rewrite != want {
			t.Errorf("ToServer.Rewrite: got %v, want %v", s.ToServer.Rewrite, want)
		}
		if want := (Tuple{f.surrogate, f.router}); s.ToClient.Match != want {
			t.Errorf("ToClient.Match: got %v, want %v", s.ToClient.Match, want)
		}
		if want := (Tuple{f.vip, f.client}); s.ToClient.Rewrite != want {
			t.Errorf("ToClient.Rewrite: got %v, want %v", s.ToClient.Rewrite, want)
		}
		if s.ToServer.SrcMAC != routerBackMAC || s.ToServer.DstMAC != surrogateMAC ||
			s.ToClient.SrcMAC != routerMAC || s.ToClient.DstMAC != clientMAC {
			t.Errorf("MACs: got %v > %v and %v > %v", s.ToServer.SrcMAC, s.ToServer.DstMAC, s.ToClient.SrcMAC, s.ToClient.DstMAC)
		}
	})
}

func TestNewTakesMappedIPv4AddressesForIPv4(t *testing.T) {
	client, server := families[0].legs()
	want := New(client, server)
	mapped := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
	}
	client.Peer, client.Local = mapped(client.Peer), mapped(client.Local)
	server.Peer, server.Local = mapped(server.Peer), mapped(server.Local)
	if got := New(client, server); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := Fit(client, server); err != nil {
		t.Errorf("Fit: %v", err)
	}
}

// An option that only one leg negotiated is stripped in both directions.
func TestNewPolicies(t *testing.T) {
	tests := []struct {
		name           string
		client, server bool
		want           Policy
	}{
		{"both", true, true, Keep},
		{"client only", true, false, Strip},
		{"server only", false, true, Strip},
		{"neither", false, false, Strip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, server := families[0].legs()
			client.SACK, server.SACK = tt.client, tt.server
			s := New(client, server)
			if s.ToServer.SACK != tt.want || s.ToClient.SACK != tt.want || s.ToServer.Timestamps != Keep {
				t.Errorf("SACK: got %v and %v, want %v", s.ToServer.SACK, s.ToClient.SACK, tt.want)
			}
			client, server = families[0].legs()
			client.Timestamps, server.Timestamps = tt.client, tt.server
			s = New(client, server)
			if s.ToServer.Timestamps != tt.want || s.ToClient.Timestamps != tt.want || s.ToServer.SACK != Keep {
				t.Errorf("timestamps: got %v and %v, want %v", s.ToServer.Timestamps, s.ToClient.Timestamps, tt.want)
			}
		})
	}
}

func TestNewShifts(t *testing.T) {
	tests := []struct {
		name                 string
		change               func(client, server *Leg)
		toServer, toClient   Shifts
		quotedToC, quotedToS Shifts
	}{
		{"both scale", func(_, _ *Leg) {}, Shifts{6, 9}, Shifts{5, 7}, Shifts{9, 6}, Shifts{7, 5}},
		{
			"the client does not", func(client, _ *Leg) { client.WindowScaling = false },
			Shifts{0, 9}, Shifts{5, 0}, Shifts{9, 0}, Shifts{0, 5},
		},
		{
			"the surrogate does not", func(_, server *Leg) { server.WindowScaling = false },
			Shifts{6, 0}, Shifts{0, 7}, Shifts{0, 6}, Shifts{7, 0},
		},
		{
			"RFC 7323: above 14 counts as 14", func(client, server *Leg) { client.ShiftOffered, server.ShiftSent = 15, 255 },
			Shifts{14, 14}, Shifts{5, 7}, Shifts{14, 14}, Shifts{7, 5},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, server := families[0].legs()
			tt.change(&client, &server)
			s := New(client, server)
			if s.ToServer.Window != tt.toServer || s.ToClient.Window != tt.toClient {
				t.Errorf("got %v and %v, want %v and %v", s.ToServer.Window, s.ToClient.Window, tt.toServer, tt.toClient)
			}
			if s.ToClient.QuotedWindow != tt.quotedToC || s.ToServer.QuotedWindow != tt.quotedToS {
				t.Errorf("quoted: got %v and %v, want %v and %v",
					s.ToClient.QuotedWindow, s.ToServer.QuotedWindow, tt.quotedToC, tt.quotedToS)
			}
		})
	}
}

func TestFit(t *testing.T) {
	tests := []struct {
		name   string
		change func(client, server *Leg)
		want   error
	}{
		{"they fit", func(_, _ *Leg) {}, nil},
		{"IPv6 client", func(client, _ *Leg) { client.Peer, client.Local = families[1].client, families[1].vip }, ErrFamily},
		{"the surrogate's segments exceed the client's MSS", func(client, _ *Leg) { client.MSSOffered = 1399 }, ErrMSS},
		{"the client's segments exceed the surrogate's MSS", func(_, server *Leg) { server.MSSOffered = 1399 }, ErrMSS},
		{"MSS just fits", func(client, server *Leg) { client.MSSOffered, server.MSSOffered = 1400, 1400 }, nil},
		{"ECN on the client's leg only", func(client, _ *Leg) { client.ECN = true }, ErrECN},
		{"ECN on the server's leg only", func(_, server *Leg) { server.ECN = true }, ErrECN},
		{"ECN on both", func(client, server *Leg) { client.ECN, server.ECN = true, true }, nil},
		{"other options differ", func(client, _ *Leg) { client.SACK, client.Timestamps, client.WindowScaling = false, false, false }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, server := families[0].legs()
			tt.change(&client, &server)
			if got := Fit(client, server); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	names := map[string]Reason{}
	for _, r := range Reasons() {
		if other, taken := names[r.String()]; taken || r.String() == "" {
			t.Errorf("reason %d: name %q is that of %d", r, r, other)
		}
		names[r.String()] = r
	}
	tests := []struct {
		name string
		want Verdict
	}{
		{"translated", Forward}, {"not-ip", Pass}, {"not-tcp", Pass}, {"not-error", Pass}, {"syn", Pass}, {"not-syn", Pass},
		{"ttl", Drop}, {"no-ack", Drop}, {"bad-options", Drop}, {"ip-options", Drop}, {"fragment", Drop}, {"extension-header", Drop},
		{"truncated", Drop}, {"bad-header", Drop}, {"wrong-family", Drop}, {"bad-quote", Drop},
	}
	for _, tt := range tests {
		if r, ok := names[tt.name]; !ok || r.Verdict() != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, r.Verdict(), tt.want)
		}
	}
	if len(tests) != len(names) {
		t.Errorf("%d reasons, %d tested", len(names), len(tests))
	}
}
