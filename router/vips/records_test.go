package vips

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/fallback"
)

func TestProxiedRecords(t *testing.T) {
	vip, client, address := netip.MustParseAddrPort("10.9.9.9:80"), netip.MustParseAddrPort("192.0.2.7:1234"), netip.MustParseAddrPort("10.2.1.2:80")
	began := time.Unix(1, 0)
	request := &http.Request{
		Method: "POST", Host: "a.test", RequestURI: "/x?y", URL: &url.URL{}, ProtoMajor: 1, ProtoMinor: 0, ContentLength: 7,
		Header: http.Header{"User-Agent": {"curl"}, "Referer": {"http://r"}},
	}
	for _, tt := range []struct {
		name string
		mode config.Mode
		x    fallback.Exchange
		want accesslog.Record
	}{
		{"answered by a surrogate", config.Proxy, fallback.Exchange{
			Surrogate: "s", Address: address, Status: 200, Sent: 9, FirstByte: 1, Duration: 2, Request: request,
		}, accesslog.Record{
			Surrogate: "s", SurrogateAddress: address, Status: 200, FromClient: 7, FromSurrogate: 9, FirstByte: 1, Duration: 2, Served: accesslog.Proxied,
			Host: []byte("a.test"), Method: []byte("POST"), Path: []byte("/x?y"), Version: accesslog.HTTP10, UserAgent: []byte("curl"), Referer: []byte("http://r"),
		}},
		{"redirected", config.Redirect, fallback.Exchange{Status: 302}, accesslog.Record{Status: 302, Served: accesslog.Redirected}},
		{"no route, in mode redirect", config.Redirect, fallback.Exchange{Status: 404}, accesslog.Record{Status: 404, Served: accesslog.Answered}},
		{"a surrogate's redirect", config.Proxy, fallback.Exchange{Surrogate: "s", Status: 302}, accesslog.Record{Surrogate: "s", Status: 302, Served: accesslog.Proxied}},
		{"malformed", config.Handoff, fallback.Exchange{Status: 400}, accesslog.Record{Status: 400, Served: accesslog.Answered}},
		{"no surrogate answers", config.Proxy, fallback.Exchange{Status: 502, Failed: true}, accesslog.Record{Status: 502, Served: accesslog.Answered, End: accesslog.Failed}},
		{"the surrogate breaks off", config.Proxy, fallback.Exchange{Surrogate: "s", Status: 200, Broken: true},
			accesslog.Record{Surrogate: "s", Status: 200, Served: accesslog.Proxied, End: accesslog.ServerRST}},
		{"the client breaks off", config.Proxy, fallback.Exchange{Surrogate: "s", Status: 200, Broken: true, Gone: true},
			accesslog.Record{Surrogate: "s", Status: 200, Served: accesslog.Proxied, End: accesslog.ClientRST}},
		{"the client leaves before", config.Proxy, fallback.Exchange{Gone: true}, accesslog.Record{Served: accesslog.Answered, End: accesslog.ClientRST}},
		{"the client leaves after", config.Proxy, fallback.Exchange{Surrogate: "s", Status: 200, Gone: true}, accesslog.Record{Surrogate: "s", Status: 200, Served: accesslog.Proxied}},
	} {
		tt.x.Started, tt.x.Client, tt.x.ID = began, client, [16]byte{1, 2}
		tt.want.Time, tt.want.Client, tt.want.VIP, tt.want.ID = began, client, vip, [16]byte{1, 2}
		got := recordOfExchange(vip, tt.mode, &tt.x)
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
