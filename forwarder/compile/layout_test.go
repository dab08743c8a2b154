package compile

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"baton/forwarder/match"
	"baton/openflow"
)

// sharing is where struct fields has what a field is matched by, by the name that it has there.
var sharing = map[string][]openflow.Field{
	"metadata":    {openflow.FieldMetadata},
	"tunnel_id":   {openflow.FieldTunnelID},
	"in_port":     {openflow.FieldInPort, openflow.FieldInPhyPort},
	"flow_label":  {openflow.FieldIPv6Flabel},
	"eth_dst":     {openflow.FieldEthDst},
	"eth_src":     {openflow.FieldEthSrc},
	"eth_type":    {openflow.FieldEthType},
	"vlan_vid":    {openflow.FieldVLANVID},
	"label":       {openflow.FieldMPLSLabel, openflow.FieldPBBISID},
	"mpls_tc":     {openflow.FieldMPLSTC},
	"mpls_bos":    {openflow.FieldMPLSBOS},
	"vlan_pcp":    {openflow.FieldVLANPCP},
	"ip_ecn":      {openflow.FieldIPECN},
	"ip_dscp":     {openflow.FieldIPDSCP},
	"ip_proto":    {openflow.FieldIPProto, openflow.FieldARPOp},
	"ipv6_exthdr": {openflow.FieldIPv6Exthdr},
	"tcp_flags":   {openflow.FieldTCPFlags},
	"ip_src":      {openflow.FieldIPv4Src, openflow.FieldIPv6Src, openflow.FieldARPSPA},
	"ip_dst":      {openflow.FieldIPv4Dst, openflow.FieldIPv6Dst, openflow.FieldARPTPA},
	"l4_src": {openflow.FieldTCPSrc, openflow.FieldUDPSrc, openflow.FieldSCTPSrc, openflow.FieldICMPv4Type,
		openflow.FieldICMPv6Type},
	"l4_dst": {openflow.FieldTCPDst, openflow.FieldUDPDst, openflow.FieldSCTPDst, openflow.FieldICMPv4Code,
		openflow.FieldICMPv6Code},
	"link_src":  {openflow.FieldARPSHA, openflow.FieldIPv6NDSLL},
	"link_dst":  {openflow.FieldARPTHA, openflow.FieldIPv6NDTLL},
	"nd_target": {openflow.FieldIPv6NDTarget},
}

var member = regexp.MustCompile(`^\s+(__be|__u)(8|16|32|64) (\w+)(?:\[(\d+)\])?;`)

// TestLayout: the kernel's programs and the matches mean the same bytes of struct fields.
func TestLayout(t *testing.T) {
	header, err := os.ReadFile("../../bpf/forwarder/types.h")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(header), "\nstruct fields {\n")
	body, _, _ = strings.Cut(body, "\n};")
	at, known := 0, 0
	for line := range strings.Lines(body) {
		m := member.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no member: %q", line)
		}
		size, _ := strconv.Atoi(m[2])
		size /= 8
		count := 1
		if m[4] != "" {
			count, _ = strconv.Atoi(m[4])
		}
		at = (at + size - 1) / size * size
		for _, f := range sharing[m[3]] {
			known++
			place, wide, ok := match.Place(f)
			if inside := place+wide <= at+size*count; !ok || place != at || !inside || count == 1 && wide != size {
				t.Errorf("%v is matched at %d, %d bytes; %s is at %d, %d bytes", f, place, wide, m[3], at, size*count)
			}
		}
		at += size * count
	}
	if at != match.Size {
		t.Errorf("struct fields has %d bytes, a match %d", at, match.Size)
	}
	if want := len(openflow.Fields()) + 1; known != want { // and tcp_flags
		t.Errorf("%d fields were looked at, there are %d", known, want)
	}
}
