package conformance

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// features are what a case needs of a switch: "match ipv4_src", "match ipv4_src masked", "set tcp_dst", "action push_mpls",
// "instruction goto_table", "meter drop", "group select", "packet mpls", "answer packet-in". Sorted, each once.
func features(prerequisite []map[string]any, trials []trial) []string {
	var found []string
	for _, message := range prerequisite {
		for kind, body := range message {
			found = append(found, messageFeatures(kind, body.(map[string]any))...)
		}
	}
	for _, t := range trials {
		calls := t.Ingress.Packet
		if t.Ingress.Packets != nil {
			calls = t.Ingress.Packets.Data
		}
		for _, call := range calls {
			found = append(found, packetFeatures(call)...)
		}
		switch {
		case t.Miss != nil:
			found = append(found, "answer table miss")
		case t.PacketIn != nil:
			found = append(found, "answer packet-in")
		case t.Ingress.Packets != nil:
			found = append(found, "answer throughput")
		default:
			found = append(found, "answer egress")
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func messageFeatures(kind string, body map[string]any) []string {
	var found []string
	if kind == "OFPGroupMod" {
		name := map[float64]string{0: "all", 1: "select", 2: "indirect", 3: "fast failover"}
		number, _ := body["type"].(float64)
		found = append(found, "group "+name[number])
	}
	setting := false // within a set-field action
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, inner := range v {
				outer := setting
				switch name, isAction := strings.CutPrefix(key, "OFPAction"); {
				case key == "OXMTlv":
					found = append(found, fieldFeature(setting, inner.(map[string]any)))
				case key == "OFPActionSetField":
					setting = true
				case isAction:
					found = append(found, "action "+snake(name))
				case strings.HasPrefix(key, "OFPMeterBand"):
					found = append(found, "meter "+snake(strings.TrimPrefix(key, "OFPMeterBand")))
				case strings.HasPrefix(key, "OFPInstruction") && key != "OFPInstructionActions":
					found = append(found, "instruction "+snake(strings.TrimPrefix(key, "OFPInstruction")))
				}
				walk(inner)
				setting = outer
			}
		}
	}
	walk(body)
	return found
}

func fieldFeature(setting bool, tlv map[string]any) string {
	name, _ := tlv["field"].(string)
	switch {
	case setting:
		return "set " + name
	case tlv["mask"] != nil:
		return "match " + name + " masked"
	}
	return "match " + name
}

// snake turns PushMpls into push_mpls.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// extensions are the headers between IPv6 and its payload.
var extensions = regexp.MustCompile(`ext_hdrs=\[`)

// packetFeatures are those of a header: "mpls(bsb=1, label=100)".
func packetFeatures(call string) []string {
	name, _, _ := strings.Cut(call, "(")
	switch name {
	case "bytes", "ethernet":
		return nil
	}
	found := []string{"packet " + name}
	if extensions.MatchString(call) {
		found = append(found, "packet ipv6 extension headers")
	}
	return found
}
