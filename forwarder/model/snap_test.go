package model

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"baton/openflow"
)

// datagram is UDP over IPv4 from port 53 to port 80, without checksums.
const datagram = "4500 001c 0000 0000 4011 0000 0a000001 0a000002 0035 0050 0008 0000"

// lengths are frames with a length instead of an EtherType.
var lengths = []struct {
	name, in string
	kind     uint64 // EtherType
	tagged   bool
	udp      uint64 // destination port
}{
	{"SNAP", "0024 aaaa03 000000 0800" + datagram, 0x0800, false, 80},
	{"SNAP behind a tag", "8100 0005 0024 aaaa03 000000 0800" + datagram, 0x0800, true, 80},
	{"SNAP behind two tags", "88a8 0005 8100 0006 0024 aaaa03 000000 0800" + datagram, 0x0800, true, 80},
	{"SNAP of something else", "0009 aaaa03 000000 88b5 01", 0x88b5, false, 0},
	{"the longest that is no type", "05ff aaaa03 000000 88b5 01", 0x88b5, false, 0},
	{"a tag is none behind SNAP", "0024 aaaa03 000000 8100 0005 0800" + datagram, 0x8100, false, 0},
	{"SNAP of another organization", "0024 aaaa03 00000c 0800" + datagram, 0x05ff, false, 0},
	{"SNAP with a length", "0024 aaaa03 000000 05ff" + datagram, 0x05ff, false, 0},
	{"SNAP in SNAP", "002c aaaa03 000000 0024 aaaa03 000000 0800" + datagram, 0x05ff, false, 0},
	{"SNAP that is cut", "0024 aaaa03 000000 08", 0x05ff, false, 0},
	{"spanning tree", "0026 424203 0000", 0x05ff, false, 0},
	{"spanning tree behind a tag", "8100 0005 0026 424203 0000", 0x05ff, true, 0},
	{"another SAP", "0024 aaab03 000000 0800" + datagram, 0x05ff, false, 0},
	{"another control", "0024 aaaa13 000000 0800" + datagram, 0x05ff, false, 0},
	{"nothing", "0000", 0x05ff, false, 0},
}

// TestEtherTypeOfLength: what is matched of frames with a length instead of an EtherType.
func TestEtherTypeOfLength(t *testing.T) {
	for _, tt := range lengths {
		t.Run(tt.name, func(t *testing.T) {
			p := &state{frame: unhex(t, addresses+tt.in)}
			m := openflow.Match{}.Uint(openflow.FieldEthType, tt.kind)
			if tt.udp != 0 {
				m = m.Uint(openflow.FieldIPProto, 17).Uint(openflow.FieldUDPDst, tt.udp)
			}
			if !p.matches(m) {
				t.Errorf("EtherType %x, UDP port %x", p.value(openflow.FieldEthType), p.value(openflow.FieldUDPDst))
			}
			if tagged := p.matches(openflow.Match{}.UintMasked(openflow.FieldVLANVID, 0x1000, 0x1000)); tagged != tt.tagged {
				t.Errorf("a tag: %v", tagged)
			}
			if tt.udp == 0 && !bytes.Equal(p.value(openflow.FieldUDPDst), []byte{0, 0}) {
				t.Errorf("UDP port %x", p.value(openflow.FieldUDPDst))
			}
		})
	}
}

// TestEtherTypeAsOpenVSwitch: it reads them so.
func TestEtherTypeAsOpenVSwitch(t *testing.T) {
	ofctl, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		t.Skip("ovs-ofctl is not installed (make deps)")
	}
	file := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4) // pcap
	file = append(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0)
	for _, tt := range lengths {
		b := unhex(t, addresses+tt.in)
		for _, n := range []int{0, 0, len(b), len(b)} {
			file = binary.LittleEndian.AppendUint32(file, uint32(n))
		}
		file = append(file, b...)
	}
	path := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(ofctl, "parse-pcap", path).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(lengths) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, tt := range lengths {
		want := fmt.Sprintf("dl_type=0x%04x", tt.kind)
		if tt.udp != 0 {
			want = fmt.Sprintf("tp_dst=%d", tt.udp)
		}
		if !strings.HasSuffix(lines[i], want) || strings.Contains(lines[i], "dl_vlan=") != tt.tagged {
			t.Errorf("%s: Open vSwitch reads %s, want %s", tt.name, lines[i], want)
		}
	}
}
