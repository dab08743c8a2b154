package proxyheader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

func TestWrite(t *testing.T) {
	for _, tt := range []struct{ client, vip string }{{"192.0.2.7:1234", "10.9.9.9:443"}, {"[2001:db8::1]:1", "[fd09::9]:65535"}} {
		for _, v := range []Version{V1, V2} {
			for _, name := range []string{"", "Shop.Example.net", strings.Repeat("n", 150), strings.Repeat("n", 151)} {
				var b bytes.Buffer
				client, vip := netip.MustParseAddrPort(tt.client), netip.MustParseAddrPort(tt.vip)
				if err := v.Write(&b, client, vip, name); err != nil {
					t.Fatal(err)
				}
				raw := bytes.Clone(b.Bytes())
				h, err := proxyproto.Read(bufio.NewReader(&b))
				if err != nil || h.Version != byte(v) || h.SourceAddr.String() != tt.client || h.DestinationAddr.String() != tt.vip {
					t.Errorf("version %d of %+v reads %+v, %v", v, tt, h, err)
				}
				if v == V2 {
					checkTLVs(t, h, raw, name)
				}
			}
		}
	}
}

// checkTLVs compares those of a header with the kernel program's.
func checkTLVs(t *testing.T, h *proxyproto.Header, raw []byte, name string) {
	t.Helper()
	tlvs, err := h.TLVs()
	if err != nil {
		t.Fatal(err)
	}
	if name != "" && len(name) <= 150 {
		if tlvs[0].Type != proxyproto.PP2_TYPE_AUTHORITY || string(tlvs[0].Value) != name {
			t.Fatalf("name %q: first TLV %+v", name, tlvs[0])
		}
		tlvs = tlvs[1:]
	}
	if len(tlvs) != 2 || tlvs[0].Type != proxyproto.PP2_TYPE_UNIQUE_ID || len(tlvs[0].Value) != 16 || tlvs[1].Type != proxyproto.PP2_TYPE_CRC32C {
		t.Fatalf("name %q: TLVs %+v", name, tlvs)
	}
	if len(raw) > 232 {
		t.Errorf("name %q: a header of %d bytes", name, len(raw))
	}
	clear(raw[len(raw)-4:])
	if want := crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)); binary.BigEndian.Uint32(tlvs[1].Value) != want {
		t.Errorf("name %q: CRC-32C % x, want %08x", name, tlvs[1].Value, want)
	}
}

func TestNone(t *testing.T) {
	var b bytes.Buffer
	if err := None.Write(&b, netip.AddrPort{}, netip.AddrPort{}, "a.test"); err != nil || b.Len() > 0 {
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
