package proxyheader

import (
	"bufio"
	"bytes"
	"net/netip"
	"testing"

	"github.com/pires/go-proxyproto"
)

func TestWrite(t *testing.T) {
	for _, tt := range []struct{ client, vip string }{{"192.0.2.7:1234", "10.9.9.9:443"}, {"[2001:db8::1]:1", "[fd09::9]:65535"}} {
		for _, v := range []Version{V1, V2} {
			var b bytes.Buffer
			client, vip := netip.MustParseAddrPort(tt.client), netip.MustParseAddrPort(tt.vip)
			if err := v.Write(&b, client, vip); err != nil {
				t.Fatal(err)
			}
			h, err := proxyproto.Read(bufio.NewReader(&b))
			if err != nil || h.Version != byte(v) || h.SourceAddr.String() != tt.client || h.DestinationAddr.String() != tt.vip {
				t.Errorf("version %d of %+v reads %+v, %v", v, tt, h, err)
			}
		}
	}
}

func TestNone(t *testing.T) {
	var b bytes.Buffer
	if err := None.Write(&b, netip.AddrPort{}, netip.AddrPort{}); err != nil || b.Len() > 0 {
		t.Errorf("%q, %v", b.Bytes(), err)
	}
	if err := None.WriteOwn(&b); err != nil || b.Len() > 0 {
		t.Errorf("%q, %v", b.Bytes(), err)
	}
}

func TestWriteOwn(t *testing.T) {
	for _, v := range []Version{V1, V2} {
		var b bytes.Buffer
		if err := v.WriteOwn(&b); err != nil {
			t.Fatal(err)
		}
		h, err := proxyproto.Read(bufio.NewReader(&b))
		if err != nil || h.Version != byte(v) || h.SourceAddr != nil {
			t.Errorf("version %d: %+v, %v", v, h, err)
		}
	}
}
