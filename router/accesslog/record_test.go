package accesslog

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"
)

// sample is a request of which everything is known.
func sample() Record {
	return Record{
		Time: time.Date(2026, 11, 25, 13, 55, 36, 7_000_120, time.UTC),
		ID:   [16]byte{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36},

		Client: netip.MustParseAddrPort("192.0.2.7:50123"), VIP: netip.MustParseAddrPort("10.9.9.9:80"), VIPName: "cdn",
		Host: []byte("cdn.example.net"), Method: []byte("GET"), Path: []byte("/video/1?x=2"), PathCut: true, Version: HTTP11, Status: 200,
		Surrogate: "s1", SurrogateAddress: netip.MustParseAddrPort("[2001:db8::1]:8080"), Pool: "video",
		FromClient: 120, FromSurrogate: 1 << 40, WholeSession: true,
		FirstByte: 1500 * time.Microsecond, Duration: 2*time.Second + 250*time.Millisecond,
		ClientRetransmissions: 1, SurrogateRetransmissions: 2,
		End: ServerFIN, Served: Proxied, UserAgent: []byte("curl/7.88.1"), Referer: []byte("http://a.example/"),
	}
}

// session is one of TLS, as the kernel sees it.
func session() Record {
	return Record{
		Time: time.Date(2026, 11, 25, 13, 55, 37, 0, time.UTC), Client: netip.MustParseAddrPort("[2001:db8::7]:443"),
		VIP: netip.MustParseAddrPort("[2001:db8::9]:443"), Protocol: TLS, Host: []byte("a.example"), Surrogate: "s1", Pool: "tls",
		WholeSession: true, End: ClientFIN,
	}
}

func TestErrors(t *testing.T) {
	want := map[End]bool{ClientRST: true, ServerRST: true, Timeout: true, Cut: true, Malformed: true, Failed: true}
	for e := range End(len(ends)) {
		if r := (Record{End: e, Status: 200}); r.Error() != want[e] {
			t.Errorf("%v: error %v, want %v", e, r.Error(), want[e])
		}
	}
	for status, want := range map[int]bool{0: false, 200: false, 499: false, 500: true, 503: true} {
		if r := (Record{Status: status}); r.Error() != want {
			t.Errorf("status %d: error %v, want %v", status, r.Error(), want)
		}
	}
}

// TestShare: the share of a request is the same each time, whatever else its record says, and of many ids as many are below a share as it says.
func TestShare(t *testing.T) {
	a, b := sample(), sample()
	b.Status, b.Path, b.Time = 500, nil, time.Now()
	if a.share() != b.share() {
		t.Error("two records of one request have two shares")
	}
	if got, want := a.share(), 0.2757843678814129; got != want {
		t.Errorf("share of a known id is %v, and was %v in earlier versions", got, want)
	}
	const n = 100_000
	for _, byID := range []bool{true, false} {
		below := 0
		for i := range uint64(n) {
			r := Record{Client: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), uint16(i)), Time: time.Unix(0, int64(i))}
			if byID {
				binary.BigEndian.PutUint64(r.ID[8:], i+1)
			}
			if r.share() < 0.01 {
				below++
			}
		}
		if math.Abs(float64(below)-n/100) > 5*math.Sqrt(n/100) {
			t.Errorf("%d of %d requests in a sample of 0.01 (by id: %v)", below, n, byID)
		}
	}
}
